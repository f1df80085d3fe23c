import type { Sandbox } from 'dormouse'
import type { Call } from '../call.ts'
import { Problem } from '../problem.ts'
import { optionsOf, runSsh, type SshSettings, sshSettings } from '../ssh-program.ts'
import { shortName } from './ls.ts'

interface SshFlags {
  readonly identity?: string
  readonly forward?: readonly string[]
  readonly option?: readonly string[]
  readonly terminal?: boolean
  readonly config?: boolean
}

/** The `ssh` of this machine, told where the sandbox is and what the server's key is: nothing has to be trusted at first sight. */
export async function ssh(
  call: Call,
  ref: string,
  command: readonly string[],
  flags: SshFlags,
): Promise<number | undefined> {
  const sandbox = await call.sandbox(ref)
  const { client, signal } = call
  const settings = await sshSettings(call, sandbox.id)
  if (flags.config === true) {
    call.answer({ host: aliasOf(sandbox), settings }, configOf(sandbox, settings))
    return undefined
  }
  const keys = await client.sshKeys.list({ signal }).all()
  if (keys.length === 0)
    throw new Problem('unauthorized', 'No SSH key has been added yet', {
      hint: '`dormouse ssh-key add` adds yours.',
    })
  const args = [
    ...(flags.identity === undefined ? [] : ['-i', flags.identity]),
    ...(flags.forward ?? []).flatMap((forward) => ['-L', forward]),
    ...(flags.terminal === true ? ['-t'] : []),
    ...[...(flags.option ?? []), ...optionsOf(settings)].flatMap((option) => ['-o', option]),
    aliasOf(sandbox),
    ...(command.length === 0 ? [] : ['--', ...command]),
  ]
  if (call.isJson) {
    call.answer({ command: ['ssh', ...args] }, '')
    return undefined
  }
  if (!keys.some(({ confirmed }) => confirmed))
    throw new Problem('unauthorized', 'No SSH key has been confirmed yet', {
      hint: `\`dormouse ssh-key confirm ${keys[0]?.name}\` does it, where its private key is.`,
    })
  return runSsh(call, args)
}

function configOf(sandbox: Sandbox, settings: SshSettings): string {
  const lines = settings.map(([name, value]) => `  ${name} ${value}\n`)
  return `Host ${aliasOf(sandbox)}\n${lines.join('')}`
}

function aliasOf(sandbox: Sandbox): string {
  return `${shortName(sandbox)}.dormouse`
}
