import { createRequire } from 'node:module'
import { aheadAddon } from '../native-programs.ts'

/** See native/src/ahead-addon.c. */
interface AheadAddon {
  readAhead(list: string, memoryDir: string, imagesDir: string, rootDir: string): void
  listTouched(pids: readonly number[]): Promise<string>
}

let found: { readonly addon: AheadAddon | undefined } | undefined

/** Returns undefined when it was not built. Then wakes with a cold page cache take longer. */
export function findAheadAddon(): AheadAddon | undefined {
  found ??= { addon: load() }
  return found.addon
}

function load(): AheadAddon | undefined {
  try {
    return createRequire(import.meta.url)(aheadAddon)
  } catch {
    return undefined
  }
}
