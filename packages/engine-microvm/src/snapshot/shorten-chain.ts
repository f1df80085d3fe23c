import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError } from '@dormouse/contracts'
import type { MicrovmBurrow } from '../burrow/microvm-burrow.ts'

/** A machine opens every disk of its chain, and reads through all of them. */
export const CHAIN_MAX_DISKS = 16
const JOB = 'shorten'
const POLL_MS = 20
/** Enough for a disk that is full, on a slow disk of the host. */
const TIMEOUT_MS = 600_000

/**
 * Makes QEMU copy what the disks above the root disk have into the burrow's own, while the guest runs. Afterwards the
 * chain is the root disk and that one. Whenever this ends, the chain has the same content as before.
 */
export async function shortenChain(burrow: MicrovmBurrow, maxDisks: number): Promise<void> {
  const { disks, rootDisk } = burrow.record.base
  if (disks.length < maxDisks) return
  const { qmp } = burrow
  const job = { 'job-id': JOB, device: 'root', 'base-node': 'lower0', 'auto-dismiss': false }
  await qmp.execute('block-stream', job)
  const until = Date.now() + TIMEOUT_MS
  let error: string | undefined
  for (;;) {
    const jobs = (await qmp.execute('query-jobs')) as readonly {
      id?: string
      status?: string
      error?: string
    }[]
    const found = jobs.find(({ id }) => id === JOB)
    error = found?.error
    if (found === undefined || found.status === 'concluded') break
    if (Date.now() > until) throw failed('it takes too long')
    await sleep(POLL_MS)
  }
  await qmp.execute('job-dismiss', { id: JOB })
  if (error !== undefined) throw failed(error.slice(0, 500))
  await burrow.useDisks([rootDisk])
}

function failed(why: string): DormouseError {
  return new DormouseError('internal', `The disks of a virtual machine were not merged: ${why}`)
}
