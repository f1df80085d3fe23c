import { DormouseError, type SandboxId } from '@dormouse/contracts'

export function movedAway(id: SandboxId): DormouseError {
  return new DormouseError('host_unavailable', `The sandbox ${id} is on its way to another host.`, {
    details: { retryAfterMs: 200 },
  })
}

export function leaseLost(): DormouseError {
  return new DormouseError(
    'cluster_unavailable',
    'This host has lost its lease and does not act for its sandboxes.',
    {
      hint: 'Use another host, or try again when this one reaches NATS.',
      details: { retryAfterMs: 1_000 },
    },
  )
}
