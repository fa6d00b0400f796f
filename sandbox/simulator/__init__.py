"""The simulated GPU Operator: does to the sandbox's API what NVIDIA's operands do on real nodes.

One process plays, for every simulated node, the kubelet's node status, the device plugin, GPU feature discovery,
the MIG manager and the runtime of the node validation pods. What they decide is in the pure modules
(`device_plugin`, `feature_discovery`, `mig_manager`, `kubelet`); `controller` carries it to the API.

The semantics follow NVIDIA/k8s-device-plugin 0.20.0, NVIDIA/mig-parted 0.15.0 and NVIDIA/gpu-operator 26.7.0
(read 2026-11-21), so a wrong config fails here as it would on a node.
"""
