import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, join } from 'node:path'
import type { SshKey } from 'dormouse'
import { formatDistance } from '../../format/amounts.ts'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { CliError } from '../cli-error.ts'
import { readAll } from '../read-all.ts'
import { optionsOf, runSsh, sshSettings } from '../ssh-program.ts'

/** Default keys of `ssh`, in order of preference. */
const DEFAULT_FILES = ['id_ed25519.pub', 'id_ecdsa.pub', 'id_rsa.pub']
const NAME_MAX_CHARACTERS = 63

export async function addSshKey(
  call: Call,
  file: string | undefined,
  { name }: { name?: string },
): Promise<void> {
  const { publicKey, path } = await readKey(call, file)
  const added = await call.client.sshKeys.add(
    { name: name ?? nameOf(publicKey, path ?? 'key.pub'), publicKey },
    { signal: call.signal },
  )
  // The private key of a key from a pipe may be on another machine.
  const key = path === undefined ? added : await confirm(call, added, path.replace(/\.pub$/, ''))
  call.printResult(key, `${key.name}  ${key.fingerprint}\n`)
  await noteNextStep(call, key)
}

/** Proves to the server that this machine, or its SSH agent, has the private key. */
export async function confirmSshKey(
  call: Call,
  name: string,
  { identity }: { identity?: string },
): Promise<number | undefined> {
  const known = await call.client.sshKeys.get(name, { signal: call.signal })
  const key = await confirm(call, known, identity)
  call.printResult(key, `${key.name}  ${key.fingerprint}\n`)
  await noteNextStep(call, key)
  return key.confirmed ? undefined : 1
}

async function confirm(call: Call, key: SshKey, identity: string | undefined): Promise<SshKey> {
  if (key.confirmAs === undefined) return key
  try {
    const settings = optionsOf(await sshSettings(call, key.confirmAs))
    const options = [
      ...settings,
      'LogLevel=ERROR',
      ...(identity === undefined ? [] : ['IdentitiesOnly=yes']),
    ].flatMap((option) => ['-o', option])
    // Without the file of the private key, its public key selects a key of the SSH agent.
    const chosen = identity === undefined || existsSync(identity) ? identity : `${identity}.pub`
    const args = [...(chosen === undefined ? [] : ['-i', chosen]), ...options, '-T', 'dormouse']
    await runSsh(call, args, { stdio: ['ignore', 'ignore', call.isJson ? 'ignore' : 'inherit'] })
  } catch (error) {
    // The key stays registered: `ssh` may be missing here, or the server may not be reachable by SSH from this machine.
    call.note(error instanceof Error ? error.message : String(error))
  }
  return await call.client.sshKeys.get(key.name, { signal: call.signal })
}

async function noteNextStep(call: Call, { name, confirmAs }: SshKey): Promise<void> {
  if (confirmAs === undefined) {
    call.note('Open a shell with `dormouse ssh SANDBOX`.')
    return
  }
  // The example below then has placeholders.
  const settings = new Map(await sshSettings(call, confirmAs).catch(() => []))
  const [host, port] = [settings.get('HostName') ?? 'HOST', settings.get('Port') ?? 'PORT']
  call.note('This key cannot log in until it is confirmed. On the machine with its private key, run')
  call.note(`\`dormouse ssh-key confirm ${name}\`, or \`ssh ${confirmAs}@${host} -p ${port}\`.`)
}

export async function listSshKeys(call: Call, { quiet }: { quiet?: boolean }): Promise<void> {
  const keys = await call.client.sshKeys.list({ signal: call.signal }).all()
  if (quiet === true) return call.printNames(keys)
  const now = Date.now()
  const rows = keys.map((key) => [
    key.name,
    key.type,
    key.fingerprint,
    key.confirmed ? 'yes' : 'no',
    `${formatDistance(Date.parse(key.createdAt), now)} ago`,
  ])
  call.printResult(
    { sshKeys: keys },
    rows.length === 0 ? '' : formatTable([['NAME', 'TYPE', 'FINGERPRINT', 'CONFIRMED', 'ADDED'], ...rows]),
  )
  if (rows.length === 0) call.note('There are no SSH keys. Add yours with `dormouse ssh-key add`.')
}

export async function removeSshKeys(call: Call, names: readonly string[]): Promise<void> {
  for (const name of names) await call.client.sshKeys.delete(name, { signal: call.signal })
  call.printResult({ deleted: names }, names.map((name) => `${name}\n`).join(''))
}

async function readKey(
  { io, signal }: Call,
  file: string | undefined,
): Promise<{ publicKey: string; path: string | undefined }> {
  if (file === '-') return { publicKey: (await readAll(io.stdin, signal)).toString().trim(), path: undefined }
  const directory = join(io.env['HOME'] || homedir(), '.ssh')
  const paths = file === undefined ? DEFAULT_FILES.map((name) => join(directory, name)) : [file]
  for (const path of paths) {
    try {
      return { publicKey: readFileSync(path, 'utf8').trim(), path }
    } catch (error) {
      if (file !== undefined)
        throw new CliError('not_found', `${path} cannot be read: ${(error as Error).message}`)
    }
  }
  throw new CliError('not_found', `There is no public key in ${directory}`, {
    hint: 'Make one with `ssh-keygen -t ed25519`, or pass a file.',
  })
}

/** The comment of the key, else the name of its file. */
function nameOf(publicKey: string, path: string): string {
  const comment = publicKey.split(/\s+/).slice(2).join(' ')
  const source = comment || basename(path, '.pub')
  const name = source.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, '')
  return name.slice(0, NAME_MAX_CHARACTERS) || 'key'
}
