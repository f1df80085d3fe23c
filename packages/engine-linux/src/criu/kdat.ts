import { join } from 'node:path'
import type { Criu } from './find-criu.ts'

/** Where CRIU finds what it knows about this kernel inside a burrow, by the privileges it runs with. */
export const KDAT_HOST = '/.dormouse/kdat/host'
export const KDAT_BURROW = '/.dormouse/kdat/burrow'

/**
 * Below /run: the kernel is the same until the next boot. One directory per version of CRIU, because each has its own
 * format.
 */
export function kdatDirectory(criu: Criu): string {
  return join('/run/dormouse', `kdat-${criu.version}`)
}
