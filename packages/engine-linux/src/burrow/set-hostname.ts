import { createRequire } from 'node:module'
import { hostnameAddon } from '../native-programs.ts'
import type { FirstProcess } from '../process/first-process.ts'
import { withNamespace } from '../process/with-namespace.ts'

/** See native/src/hostname-addon.c. */
interface HostnameAddon {
  setHostname(utsnsFd: number, name: string): void
}

let found: { readonly addon: HostnameAddon | undefined } | undefined

/** Whether a burrow can get another host name than it was launched with. */
export function canSetHostname(): boolean {
  return findAddon() !== undefined
}

/** Works for every burrow that is alive, frozen or not. Pre: `canSetHostname`. */
export function setHostname(first: FirstProcess, name: string): Promise<void> {
  return withNamespace(first, 'uts', (utsns) => findAddon()?.setHostname(utsns, name))
}

function findAddon(): HostnameAddon | undefined {
  found ??= { addon: load() }
  return found.addon
}

function load(): HostnameAddon | undefined {
  try {
    return createRequire(import.meta.url)(hostnameAddon)
  } catch {
    return undefined
  }
}
