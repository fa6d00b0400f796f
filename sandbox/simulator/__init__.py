"""The simulated GPU Operator, which updates the sandbox's API objects as NVIDIA's operands do on real nodes.

One process simulates the kubelet's node status, the device plugin, GPU feature discovery, the MIG manager, the DRA
driver and the runtime of validation pods for all simulated nodes. Pure modules (`device_plugin`,
`feature_discovery`, `mig_manager`, `dra_driver`, `kubelet`) make their decisions, and `controller` applies them.

The semantics follow NVIDIA/k8s-device-plugin 0.20.0, NVIDIA/mig-parted 0.15.0 and NVIDIA/gpu-operator 26.7.0 (read
2026-11-21), so a wrong config fails as it would on a real node. The simulator checks the planner. It therefore
imports nothing from gpu_platform.planning (an import contract) and reads no MIG facts from the catalogue.
"""
