import { createRequire } from 'node:module'
import { gateAddon } from '../native-programs.ts'

export { gateAddon }

/** See native/src/gate-addon.c. Each call enters the namespace on a thread of its own. */
export interface GateAddon {
  openGate(netnsFd: number): Promise<{ readonly tcp: number; readonly dns: number; readonly link: number }>
  /** Returns how many connections it closed. Those to the ends in `kept` continue. */
  hangUpOutside(netnsFd: number, kept?: Buffer): Promise<{ readonly count: number }>
  /** Makes an end for each record: see native/src/gate-ends.h. -1 stands for one that could not be made. */
  makeEnds(netnsFd: number, records: Buffer): Promise<{ readonly ends: readonly number[] }>
  startEnds(records: Buffer, ends: Int32Array): readonly boolean[]
  /** Until connections are released, no data arrives from the outside, and none is lost. */
  holdConnections(netnsFd: number): Promise<unknown>
  releaseConnections(netnsFd: number): Promise<unknown>
  /** Connects to 127.0.0.1, or to ::1; rejects with ECONNREFUSED. The caller owns the descriptor. */
  connectPort(netnsFd: number, port: number): Promise<{ readonly connection: number }>
  /** A network namespace with a loopback interface only. It lives as long as the descriptor, which the caller owns. */
  makeNetwork(): Promise<{ readonly network: number }>
  /** Listens at 127.0.0.1 in the namespace; 0 is any port. The caller owns the descriptor. */
  listenLoopback(netnsFd: number, port: number): Promise<{ readonly listener: number }>
  /** Rejects when this kernel does not support gates. */
  probe(): Promise<unknown>
}

export type FoundAddon =
  | { readonly addon: GateAddon }
  /** One sentence for people: why there is no addon. */
  | { readonly missing: string }

let loaded: FoundAddon | undefined
let found: Promise<FoundAddon> | undefined

/** Loads the addon once, whether the kernel supports gates or not. */
export function loadGateAddon(): FoundAddon {
  loaded ??= load()
  return loaded
}

/** Loads the addon and asks the kernel once: neither changes while this process lives. */
export function findGateAddon(): Promise<FoundAddon> {
  found ??= probe(loadGateAddon())
  return found
}

function load(): FoundAddon {
  try {
    return { addon: createRequire(import.meta.url)(gateAddon) }
  } catch (error) {
    return { missing: `the addon is not built or does not load: ${firstLine(error)}` }
  }
}

async function probe(addon: FoundAddon): Promise<FoundAddon> {
  if (!('addon' in addon)) return addon
  return addon.addon.probe().then(
    () => addon,
    (error: unknown) => ({ missing: `the kernel refuses: ${firstLine(error)}` }),
  )
}

function firstLine(error: unknown): string {
  return (error as Error).message.split('\n')[0] ?? ''
}
