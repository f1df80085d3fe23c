import { closeSync } from 'node:fs'
import { DormouseError } from '@dormouse/contracts'
import type { Gate } from '@dormouse/engine'
import type { FirstProcess } from '../process/first-process.ts'
import { withNamespace } from '../process/with-namespace.ts'
import { RESOLVER } from './addresses.ts'
import { findGateAddon, type GateAddon, loadGateAddon } from './gate-addon.ts'

/** Works for every burrow that is alive, frozen or not. */
export async function openGate(first: FirstProcess): Promise<Gate> {
  const addon = await getGateAddon()
  const { tcp, dns, link } = await inNetworkOf(first, (netns) => addon.openGate(netns)).catch(explain)
  let isOpen = true
  return {
    tcp,
    dns,
    close: () => {
      if (isOpen) closeSync(link)
      isOpen = false
    },
  }
}

/** Closes a gate that no server listens at. Connections inside are then refused. */
export function closeUnused(gate: Gate): void {
  gate.close()
  closeSync(gate.tcp)
  closeSync(gate.dns)
}

/**
 * Closes the connections to the outside that a restore brought back, except those whose other ends are in `kept`. The
 * other ends no longer exist, so a process that reads from one would wait for ever.
 */
export function closeOutsideConnections(first: FirstProcess, kept?: Buffer): Promise<void> {
  return inNetworkIfAny(first, (addon, netns) => addon.hangUpOutside(netns, kept ?? Buffer.alloc(0)))
}

/** While a snapshot is taken, connections get no data: CRIU must find as much in a connection as it counted. */
export function holdConnections(first: FirstProcess): Promise<void> {
  return inNetworkIfAny(first, (addon, netns) => addon.holdConnections(netns))
}

export function releaseConnections(first: FirstProcess): Promise<void> {
  return inNetworkIfAny(first, (addon, netns) => addon.releaseConnections(netns))
}

/** Returns a descriptor of a connection, which the caller owns. Throws `port_closed` when nothing listens. */
export async function connectPort(first: FirstProcess, port: number): Promise<number> {
  const found = loadGateAddon()
  if (!('addon' in found))
    throw new DormouseError('host_unsupported', `Ports cannot be reached here: ${found.missing}.`)
  const { connection } = await inNetworkOf(first, (netns) => found.addon.connectPort(netns, port)).catch(
    (cause: unknown) => {
      if ((cause as NodeJS.ErrnoException).code !== 'ECONNREFUSED') throw cause
      throw new DormouseError('port_closed', `nothing listens on port ${port}`, {
        details: { port, reason: 'nothing_listens' },
        cause,
      })
    },
  )
  return connection
}

/** Does nothing on a host without the addon: there burrows have no connections to the outside. */
async function inNetworkIfAny(
  first: FirstProcess,
  work: (addon: GateAddon, netns: number) => Promise<unknown>,
): Promise<void> {
  const found = await findGateAddon()
  if ('addon' in found) await inNetworkOf(first, (netns) => work(found.addon, netns))
}

function inNetworkOf<Result>(first: FirstProcess, work: (netns: number) => Promise<Result>): Promise<Result> {
  return withNamespace(first, 'net', work)
}

async function getGateAddon(): Promise<GateAddon> {
  const found = await findGateAddon()
  if ('addon' in found) return found.addon
  throw new DormouseError('host_unsupported', `Sandboxes have no network here: ${found.missing}.`)
}

function explain(error: unknown): never {
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'EADDRINUSE')
    throw new DormouseError('in_use', `A process in the sandbox has taken port 53 (${message}).`, {
      hint: `End it, or let it listen at 127.0.0.1: the sandbox's own resolver is at ${RESOLVER}:53.`,
      cause: error,
    })
  throw error
}
