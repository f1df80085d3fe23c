import { createRequire } from 'node:module'
import { gateAddon } from '../native-programs.ts'

/** native/src/gate-addon.c. Each call goes into the namespace with a thread of its own. */
export interface GateAddon {
  openGate(netnsFd: number): Promise<{ readonly tcp: number; readonly dns: number; readonly link: number }>
  /** Answers how many connections it has ended. */
  hangUpOutside(netnsFd: number): Promise<{ readonly count: number }>
  /** Until they are released nothing comes in through connections to the outside, and nothing is lost. */
  holdConnections(netnsFd: number): Promise<unknown>
  releaseConnections(netnsFd: number): Promise<unknown>
  /** Rejects when this kernel cannot do it. */
  probe(): Promise<unknown>
}

export type FoundAddon =
  | { readonly addon: GateAddon }
  /** One sentence for people. */
  | { readonly missing: string }

let found: Promise<FoundAddon> | undefined

/** Loads it and asks the kernel, once: neither changes while this process lives. */
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
