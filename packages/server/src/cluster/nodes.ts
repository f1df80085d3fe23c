import type { HostDescription } from '@dormouse/cluster'
import { DormouseError } from '@dormouse/contracts'
import type { DrainedAnswer, MovedAnswer, NodeAnswer } from '@dormouse/contracts/http'

/** The hosts of the cluster, for routes. A server outside a cluster is its only one. */
export interface Nodes {
  list(): readonly NodeAnswer[]
  /** Of this host. Throws `not_found` for another id. */
  cordon(id: string, isCordoned: boolean): Promise<NodeAnswer>
  /** Cordons this host and moves its sandboxes to others, one after the other. `list` shows how far it is. */
  drain(id: string): Promise<DrainedAnswer>
  /** Gives a sandbox of this host to another host. It sleeps, and wakes there with the next call. */
  move(sandboxId: string, node: string): Promise<MovedAnswer>
  /** Waits until the head of a sleeping sandbox is in the depot. */
  replicate(sandboxId: string): Promise<void>
}

/** The only node of a server that is in no cluster. */
export function loneNode(describe: () => HostDescription): Nodes {
  return {
    list: () => [nodeView(describe(), { state: 'alive', isSelf: true })],
    cordon: () => Promise.reject(noCluster()),
    drain: () => Promise.reject(noCluster()),
    move: () => Promise.reject(noCluster()),
    replicate: () => Promise.reject(noCluster()),
  }
}

export function nodeView(
  { room, load, ...host }: HostDescription,
  { state, isSelf }: Pick<NodeAnswer, 'state' | 'isSelf'>,
): NodeAnswer {
  const { id, address, isCordoned, drain, version, startedAt, arch, kernel, cpu } = host
  return {
    ...{ id, address, state, isSelf, isCordoned, version, startedAt, arch, kernel, cpu },
    drain: drain && { ...drain, stays: (drain.stays ?? []) as NonNullable<NodeAnswer['drain']>['stays'] },
    cpus: room.cpus,
    load,
    memory: { freeBytes: room.memoryFreeBytes, totalBytes: room.memoryTotalBytes },
    disk: { freeBytes: room.diskFreeBytes, totalBytes: room.diskTotalBytes },
  }
}

function noCluster(): DormouseError {
  return new DormouseError('conflict', 'This server is in no cluster.', {
    hint: 'Start it with `--cluster`; docs/guides/cluster.md has the steps.',
  })
}
