"""Answer HTTP requests with a matrix product from the GPU. Put your model here."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch

WEIGHTS = torch.rand(1024, 1024, device="cuda")


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        answer = {"status": "ok"}
        if self.path != "/healthz":
            answer = {"gpu": torch.cuda.get_device_name(), "trace": float((WEIGHTS @ WEIGHTS).trace())}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("", 8080), Handler).serve_forever()
