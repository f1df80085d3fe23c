import type { Secret } from 'dormouse'
import { formatDistance } from '../../format/amounts.ts'
import { formatFields, formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { readAll } from '../read-all.ts'
import { readHidden } from '../read-hidden.ts'

export async function listSecrets(call: Call, { quiet }: { quiet?: boolean }): Promise<void> {
  const secrets = await call.client.secrets.list({ signal: call.signal }).all()
  if (quiet === true) return call.printNames(secrets)
  const now = Date.now()
  const rows = secrets.map((secret) => [
    secret.name,
    secret.domains.join(' '),
    String(secret.usedBy.length),
    `${formatDistance(Date.parse(secret.updatedAt), now)} ago`,
  ])
  call.printResult(
    { secrets },
    rows.length === 0 ? '' : formatTable([['NAME', 'DOMAINS', 'USED BY', 'SET'], ...rows]),
  )
  if (rows.length === 0)
    call.note('There are no secrets. Create one with `dormouse secret create NAME --domain HOST`.')
}

export async function createSecret(
  call: Call,
  name: string,
  { domain = [] }: { domain?: readonly string[] },
): Promise<void> {
  if (domain.length === 0)
    throw new UsageError('a secret needs a host', 'Name it with --domain, such as --domain api.example.com.')
  const value = await readValue(call)
  const secret = await call.client.secrets.create(
    { name, value, domains: [...domain] },
    { signal: call.signal },
  )
  call.printResult(secret, `${secret.placeholder}\n`)
  call.note(`Create a sandbox that can use it with \`dormouse create --secret ${name}\`.`)
}

export async function setSecret(
  call: Call,
  name: string,
  { domain }: { domain?: readonly string[] },
): Promise<void> {
  // Changing domains does not require the value.
  const change = domain === undefined ? { value: await readValue(call) } : { domains: [...domain] }
  const secret = await call.client.secrets.update(name, change, { signal: call.signal })
  call.printResult(secret, describe(secret))
}

export async function showSecret(call: Call, name: string): Promise<void> {
  const secret = await call.client.secrets.get(name, { signal: call.signal })
  call.printResult(secret, describe(secret))
}

/** Adds secrets to those that the sandbox has. */
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
  call.printResult({ deleted: names }, names.map((name) => `${name}\n`).join(''))
}

async function change(
  call: Call,
  ref: string,
  choose: (had: readonly string[]) => readonly string[],
): Promise<void> {
  const sandbox = await call.sandbox(ref)
  const info = await sandbox.update({ secrets: [...choose(sandbox.info.secrets)], signal: call.signal })
  call.printResult(info, info.secrets.map((name) => `${name}\n`).join(''))
}

/** Not from an argument: the shell's history and every process on this machine could see it. */
async function readValue(call: Call): Promise<string> {
  const { stdin } = call.io
  const value = stdin.isTTY
    ? await readHidden(call.io, 'Value: ')
    : (await readAll(stdin, call.signal)).toString().replace(/\r?\n$/, '')
  if (value !== '') return value
  throw new UsageError(
    'standard input has no value',
    'Redirect a file, as in `… < key.txt`, or type the value.',
  )
}

function describe(secret: Secret): string {
  return formatFields([
    ['name', secret.name],
    ['domains', secret.domains.join(' ')],
    ['placeholder', secret.placeholder],
    ['created', secret.createdAt],
    ['set', secret.updatedAt],
    ['used by', secret.usedBy.join(', ') || 'none'],
  ])
}
