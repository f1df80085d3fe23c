import type { Port, PortAccess } from 'dormouse'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { UsageProblem } from '../problem.ts'
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
  call.answer(
    { ports },
    rows.length === 0 ? '' : formatTable([['PORT', 'LISTENS', 'ACCESS', 'ADDRESS'], ...rows]),
  )
  if (rows.length === 0) call.note(`Nothing listens in ${shortName(sandbox)}, and no port of it is public.`)
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
  answerPort(call, await call.during(`Waiting for port ${port} of ${shortName(sandbox)}`, waiting))
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
  call.answer(link, `${link.url}\n`)
  call.note(`Whoever has it reaches port ${port} of ${shortName(sandbox)} until ${link.expiresAt}.`)
}

export async function setPort(call: Call, ref: string, number: string, access: PortAccess): Promise<void> {
  const port = parsePort(number)
  const sandbox = await call.sandbox(ref)
  answerPort(call, await sandbox.ports.setAccess(port, access, { signal: call.signal }))
  const who = access === 'public' ? 'Anybody who knows the address' : 'Only who has a key or a link'
  call.note(`${who} reaches port ${port} of ${shortName(sandbox)} from now on.`)
}

function answerPort(call: Call, port: Port): void {
  call.answer(port, `${port.url}\n`)
}

function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (port < 1 || port > 65_535)
    throw new UsageProblem(`"${text}" is not a port`, 'Give a number from 1 to 65535.')
  return port
}
