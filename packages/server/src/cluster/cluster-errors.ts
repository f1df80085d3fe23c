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

export function notPublished(): DormouseError {
  return new DormouseError(
    'cluster_unavailable',
    'The change is made on this host, but NATS does not answer: if the host is lost now, the change is lost, too.',
    { hint: 'Make the change again when the host reaches NATS.', details: { retryAfterMs: 1_000 } },
  )
}
