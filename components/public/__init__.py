"""Public components: `GpuPlatform`, `GpuNodePool`, `GpuOperator`, `GpuValidation` and `GpuTeam`.

Each component takes plain arguments (`types`). It checks and plans them with the functions that plan a stack file
(`_planning`), and registers the components of `components/` with the resulting plan. Python programs import the
public components from `components`. The plugin in `plugin/` serves them to other languages (`provider`). See
docs/components.md.
"""
