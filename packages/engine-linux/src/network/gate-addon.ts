import { createRequire } from 'node:module'
import { gateAddon } from '../native-programs.ts'

/** See native/src/gate-addon.c. Each call enters the namespace on a thread of its own. */
export interface GateAddon {
  openGate(netnsFd: number): Promise<{ readonly tcp: number; readonly dns: number; readonly link: number }>
  /** Returns how many connections it closed. */
  hangUpOutside(netnsFd: number): Promise<{ readonly count: number }>
  /** Until connections are released, no data arrives from the outside, and none is lost. */
  holdConnections(netnsFd: number): Promise<unknown>
  releaseConnections(netnsFd: number): Promise<unknown>
  /** Rejects when this kernel does not support gates. */
  probe(): Promise<unknown>
}

export type FoundAddon =
  | { readonly addon: GateAddon }
  /** One sentence for people: why there is no addon. */
  | { readonly missing: string }

let found: Promise<FoundAddon> | undefined

/** Loads the addon and asks the kernel once: neither changes while this process lives. */
export function findGateAddon(): Promise<FoundAddon> {
  found ??= load()
  return found
}

async function load(): Promise<FoundAddon> {
  let addon: GateAddon
  try {
    addon = createRequire(import.meta.url)(gateAddon)
  } catch (error) {
    return { missing: `the addon is not built or does not load: ${firstLine(error)}` }
  }
  return addon.probe().then(
    () => ({ addon }),
    (error: unknown) => ({ missing: `the kernel refuses: ${firstLine(error)}` }),
  )
}

function firstLine(error: unknown): string {
  return (error as Error).message.split('\n')[0] ?? ''
}
