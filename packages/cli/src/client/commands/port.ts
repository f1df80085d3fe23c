import type { Port, PortAccess } from 'dormouse'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { shortName } from './ls.ts'

export async function listPorts(call: Call, ref: string): Promise<void> {
  const sandbox = await call.sandbox(ref)
  const ports = await sandbox.ports.list({ signal: call.signal })
  const rows = ports.map(({ port, addresses, access, url }) => [
    String(port),
    addresses.join(' ') || 'nothing',
    access,
    url,
  ])
  call.printResult(
    { ports },
    rows.length === 0 ? '' : formatTable([['PORT', 'LISTENS', 'ACCESS', 'ADDRESS'], ...rows]),
  )
  if (rows.length === 0) call.note(`Nothing listens in ${shortName(sandbox)}, and it has no public ports.`)
}

export async function waitForPort(
  call: Call,
  ref: string,
  number: string,
  { timeout }: { timeout: number },
): Promise<void> {
  const port = parsePort(number)
  const sandbox = await call.sandbox(ref)
  const waiting = sandbox.waitForPort(port, { timeoutMs: timeout, signal: call.signal })
  printPort(call, await call.withProgress(`Waiting for port ${port} of ${shortName(sandbox)}`, waiting))
}

export async function linkPort(
  call: Call,
  ref: string,
  number: string,
  { for: expiresInMs, path }: { for: number; path: string },
): Promise<void> {
  const port = parsePort(number)
  const sandbox = await call.sandbox(ref)
  const link = await sandbox.ports.link(port, { expiresInMs, path, signal: call.signal })
  call.printResult(link, `${link.url}\n`)
  call.note(`Anyone with this link can reach port ${port} of ${shortName(sandbox)} until ${link.expiresAt}.`)
}

export async function setPort(call: Call, ref: string, number: string, access: PortAccess): Promise<void> {
  const port = parsePort(number)
  const sandbox = await call.sandbox(ref)
  printPort(call, await sandbox.ports.setAccess(port, access, { signal: call.signal }))
  const who = access === 'public' ? 'Anyone with the address' : 'Only requests with a key or a link'
  call.note(`${who} can now reach port ${port} of ${shortName(sandbox)}.`)
}

function printPort(call: Call, port: Port): void {
  call.printResult(port, `${port.url}\n`)
}

function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (port < 1 || port > 65_535)
    throw new UsageError(`"${text}" is not a port`, 'Use a number from 1 to 65535.')
  return port
}
