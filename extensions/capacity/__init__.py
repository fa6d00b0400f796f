"""Where pods would run, how long jobs would wait, which pools are cheapest: questions that plans answer."""
