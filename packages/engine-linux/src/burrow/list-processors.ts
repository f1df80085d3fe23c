import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'

let processors: readonly string[] | undefined

/** What /proc/cpuinfo says about each CPU that this process may use; read once. */
export function listProcessors(): readonly string[] {
  processors ??= readFileSync('/proc/cpuinfo', 'latin1')
    .split('\n\n')
    .filter((text) => text.trim() !== '')
    .slice(0, availableParallelism())
  return processors
}
