import { loneNode } from '../../cluster/nodes.ts'
import type { Services } from '../services.ts'

/** The only node of a server outside a cluster. */
export function fakeNodes(): Services['nodes'] {
  return loneNode(() => ({
    ...{
      id: 'host',
      address: 'http://127.0.0.1:7070',
      version: '0.0.0',
      startedAt: '2026-01-01T00:00:00.000Z',
    },
    ...{ instance: 'one', isCordoned: false, arch: 'x64', kernel: '6.12.0', abilities: undefined },
    room: { memoryTotalBytes: 2, memoryFreeBytes: 1, diskTotalBytes: 2, diskFreeBytes: 1, cpus: 1 },
    load: { running: 0, sandboxes: 0, cpu: 0 },
  }))
}
