import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, join } from 'node:path'
import type { SshKey } from 'dormouse'
import { formatDistance } from '../../format/amounts.ts'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { Problem } from '../problem.ts'
import { readAll } from '../read-all.ts'
import { optionsOf, runSsh, sshSettings } from '../ssh-program.ts'

/** Where `ssh` looks by itself, the best first. */
const USUAL_FILES = ['id_ed25519.pub', 'id_ecdsa.pub', 'id_rsa.pub']
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
  // What was piped in may be anybody's.
  const key = path === undefined ? added : await confirm(call, added, path.replace(/\.pub$/, ''))
  call.answer(key, `${key.name}  ${key.fingerprint}\n`)
  await tellWhatNext(call, key)
}

/** Shows the server that this machine, or its agent, has the private key. */
export async function confirmSshKey(
  call: Call,
  name: string,
  { identity }: { identity?: string },
): Promise<number | undefined> {
  const known = await call.client.sshKeys.get(name, { signal: call.signal })
  const key = await confirm(call, known, identity)
  call.answer(key, `${key.name}  ${key.fingerprint}\n`)
  await tellWhatNext(call, key)
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
    // Without a private key there, its public key says which of the agent's is meant.
    const chosen = identity === undefined || existsSync(identity) ? identity : `${identity}.pub`
    const args = [...(chosen === undefined ? [] : ['-i', chosen]), ...options, '-T', 'dormouse']
    await runSsh(call, args, { stdio: ['ignore', 'ignore', call.isJson ? 'ignore' : 'inherit'] })
  } catch (error) {
    // It stays added: there may be no `ssh` here, and the server may take no connections of this machine.
    call.note(error instanceof Error ? error.message : String(error))
  }
  return await call.client.sshKeys.get(key.name, { signal: call.signal })
}

async function tellWhatNext(call: Call, { name, confirmAs }: SshKey): Promise<void> {
  if (confirmAs === undefined) {
    call.note('`dormouse ssh SANDBOX` opens a shell with it.')
    return
  }
  const settings = new Map(await sshSettings(call, confirmAs).catch(() => []))
  const [host, port] = [settings.get('HostName') ?? 'HOST', settings.get('Port') ?? 'PORT']
  call.note(`It lets nobody in until it is confirmed, where its private key is:`)
  call.note(`\`dormouse ssh-key confirm ${name}\`, or \`ssh ${confirmAs}@${host} -p ${port}\`.`)
}

export async function listSshKeys(call: Call, { quiet }: { quiet?: boolean }): Promise<void> {
  const keys = await call.client.sshKeys.list({ signal: call.signal }).all()
  if (quiet === true) return call.answerNames(keys)
  const now = Date.now()
  const rows = keys.map((key) => [
    key.name,
    key.type,
    key.fingerprint,
    key.confirmed ? 'yes' : 'no',
    `${formatDistance(Date.parse(key.createdAt), now)} ago`,
  ])
  call.answer(
    { sshKeys: keys },
    rows.length === 0 ? '' : formatTable([['NAME', 'TYPE', 'FINGERPRINT', 'CONFIRMED', 'ADDED'], ...rows]),
  )
  if (rows.length === 0) call.note('There are no SSH keys. `dormouse ssh-key add` adds yours.')
}

export async function removeSshKeys(call: Call, names: readonly string[]): Promise<void> {
  for (const name of names) await call.client.sshKeys.delete(name, { signal: call.signal })
  call.answer({ deleted: names }, names.map((name) => `${name}\n`).join(''))
}

async function readKey(
  { io, signal }: Call,
  file: string | undefined,
): Promise<{ publicKey: string; path: string | undefined }> {
  if (file === '-') return { publicKey: (await readAll(io.stdin, signal)).toString().trim(), path: undefined }
  const directory = join(io.env['HOME'] || homedir(), '.ssh')
  const paths = file === undefined ? USUAL_FILES.map((name) => join(directory, name)) : [file]
  for (const path of paths) {
    try {
      return { publicKey: readFileSync(path, 'utf8').trim(), path }
    } catch (error) {
      if (file !== undefined)
        throw new Problem('not_found', `${path} cannot be read: ${(error as Error).message}`)
    }
  }
  throw new Problem('not_found', `There is no public key in ${directory}`, {
    hint: 'Make one with `ssh-keygen -t ed25519`, or name the file.',
  })
}

/** What its comment says, or else its file. */
function nameOf(publicKey: string, path: string): string {
  const comment = publicKey.split(/\s+/).slice(2).join(' ')
  const told = comment || basename(path, '.pub')
  const name = told.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, '')
  return name.slice(0, NAME_MAX_CHARACTERS) || 'key'
}
