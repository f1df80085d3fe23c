import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, join } from 'node:path'
import { formatDistance } from '../../format/amounts.ts'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { Problem } from '../problem.ts'
import { readAll } from '../read-all.ts'

/** Where `ssh` looks by itself, the best first. */
const USUAL_FILES = ['id_ed25519.pub', 'id_ecdsa.pub', 'id_rsa.pub']
const NAME_MAX_CHARACTERS = 63

export async function addSshKey(
  call: Call,
  file: string | undefined,
  { name }: { name?: string },
): Promise<void> {
  const { publicKey, path } = await readKey(call, file)
  const key = await call.client.sshKeys.add(
    { name: name ?? nameOf(publicKey, path), publicKey },
    { signal: call.signal },
  )
  call.answer(key, `${key.name}  ${key.fingerprint}\n`)
  call.note('`dormouse ssh SANDBOX` opens a shell with it.')
}

export async function listSshKeys(call: Call, { quiet }: { quiet?: boolean }): Promise<void> {
  const keys = await call.client.sshKeys.list({ signal: call.signal }).all()
  if (quiet === true) return call.answerNames(keys)
  const now = Date.now()
  const rows = keys.map((key) => [
    key.name,
    key.type,
    key.fingerprint,
    `${formatDistance(Date.parse(key.createdAt), now)} ago`,
  ])
  call.answer(
    { sshKeys: keys },
    rows.length === 0 ? '' : formatTable([['NAME', 'TYPE', 'FINGERPRINT', 'ADDED'], ...rows]),
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
): Promise<{ publicKey: string; path: string }> {
  if (file === '-') return { publicKey: (await readAll(io.stdin, signal)).toString().trim(), path: 'key.pub' }
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
