import type { EngineCapabilities } from '@dormouse/engine'
import type { Hierarchies } from './cgroup/find-hierarchies.ts'

/** What the engine of processes can do with these cgroups. */
export function linuxCapabilities(
  { v1, v2 }: Hierarchies,
  { snapshot, network }: Pick<EngineCapabilities, 'snapshot' | 'network'>,
): EngineCapabilities {
  const has = (name: 'memory' | 'cpu' | 'pids') => v1.has(name) || v2?.controllers.has(name) === true
  return {
    snapshot,
    network,
    adopt: true,
    limits: { memory: has('memory'), cpu: has('cpu'), pids: has('pids') },
    ...{ volumes: true, timers: true, snapshotFiles: true, images: true, waitsAtMemoryLimit: true },
  }
}
