import { readFile } from 'node:fs/promises'

const RECEIVE_MAX = '/proc/sys/net/core/rmem_max'
/** What kernels have by default. */
const DEFAULT_BYTES = 212_992

/**
 * How much of a receive queue a restore can bring back. CRIU fills it without privileges over the host, so through a
 * buffer of twice `rmem_max`, of which the kernel's bookkeeping takes a part. native/src/masks.c gives connections less
 * than this, but a program can ask for more.
 */
export async function restorableQueueBytes(): Promise<number> {
  const text = await readFile(RECEIVE_MAX, 'utf8').catch(() => '')
  const bytes = Number.parseInt(text, 10)
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : DEFAULT_BYTES
}
