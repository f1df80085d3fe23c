import type { Secret } from 'dormouse'
import { formatDistance } from '../../format/amounts.ts'
import { formatFields, formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { UsageProblem } from '../problem.ts'
import { readAll } from '../read-all.ts'
import { readHidden } from '../read-hidden.ts'

export async function listSecrets(call: Call, { quiet }: { quiet?: boolean }): Promise<void> {
  const secrets = await call.client.secrets.list({ signal: call.signal }).all()
  if (quiet === true) return call.answerNames(secrets)
  const now = Date.now()
  const rows = secrets.map((secret) => [
    secret.name,
    secret.domains.join(' '),
    String(secret.usedBy.length),
    `${formatDistance(Date.parse(secret.updatedAt), now)} ago`,
  ])
  call.answer(
    { secrets },
    rows.length === 0 ? '' : formatTable([['NAME', 'DOMAINS', 'USED BY', 'SET'], ...rows]),
  )
  if (rows.length === 0)
    call.note('There are no secrets. `dormouse secret create NAME --domain HOST` makes one.')
}

export async function createSecret(
  call: Call,
  name: string,
  { domain = [] }: { domain?: readonly string[] },
): Promise<void> {
  if (domain.length === 0)
    throw new UsageProblem('a secret is for a host', 'Say which with --domain api.example.com.')
  const value = await readValue(call)
  const secret = await call.client.secrets.create(
    { name, value, domains: [...domain] },
    { signal: call.signal },
  )
  call.answer(secret, `${secret.placeholder}\n`)
  call.note(`\`dormouse create --secret ${name}\` makes a sandbox that has it.`)
}

export async function setSecret(
  call: Call,
  name: string,
  { domain }: { domain?: readonly string[] },
): Promise<void> {
  // Domains alone can be changed by whoever does not know the value.
  const change = domain === undefined ? { value: await readValue(call) } : { domains: [...domain] }
  const secret = await call.client.secrets.update(name, change, { signal: call.signal })
  call.answer(secret, describe(secret))
}

export async function showSecret(call: Call, name: string): Promise<void> {
  const secret = await call.client.secrets.get(name, { signal: call.signal })
  call.answer(secret, describe(secret))
}

/** Adds to those that it has. */
export async function giveSecrets(call: Call, ref: string, names: readonly string[]): Promise<void> {
  await change(call, ref, (had) => [...new Set([...had, ...names])])
}

export async function takeSecrets(call: Call, ref: string, names: readonly string[]): Promise<void> {
  await change(call, ref, (had) => had.filter((name) => !names.includes(name)))
}

export async function removeSecrets(
  call: Call,
  names: readonly string[],
  { force }: { force?: boolean },
): Promise<void> {
  for (const name of names)
    await call.client.secrets.delete(name, { signal: call.signal, ...(force === true && { force }) })
  call.answer({ deleted: names }, names.map((name) => `${name}\n`).join(''))
}

async function change(
  call: Call,
  ref: string,
  choose: (had: readonly string[]) => readonly string[],
): Promise<void> {
  const sandbox = await call.sandbox(ref)
  const info = await sandbox.update({ secrets: [...choose(sandbox.info.secrets)], signal: call.signal })
  call.answer(info, info.secrets.map((name) => `${name}\n`).join(''))
}

/** Not from an argument: those are in the history of the shell, and every process on this machine can see them. */
async function readValue(call: Call): Promise<string> {
  const { stdin } = call.io
  const value = stdin.isTTY
    ? await readHidden(call.io, 'Value: ')
    : (await readAll(stdin, call.signal)).toString().replace(/\r?\n$/, '')
  if (value !== '') return value
  throw new UsageProblem('no value came on standard input', 'Pipe it in, as in `… < key.txt`, or type it.')
}

function describe(secret: Secret): string {
  return formatFields([
    ['name', secret.name],
    ['domains', secret.domains.join(' ')],
    ['placeholder', secret.placeholder],
    ['created', secret.createdAt],
    ['set', secret.updatedAt],
    ['used by', secret.usedBy.join(', ') || 'nobody'],
  ])
}
