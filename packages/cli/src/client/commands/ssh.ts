import type { Sandbox } from 'dormouse'
import type { Call } from '../call.ts'
import { CliError } from '../cli-error.ts'
import { optionsOf, runSsh, type SshSettings, sshSettings } from '../ssh-program.ts'
import { shortName } from './ls.ts'

interface SshFlags {
  readonly identity?: string
  readonly forward?: readonly string[]
  readonly option?: readonly string[]
  readonly terminal?: boolean
  readonly config?: boolean
}

/** Runs the `ssh` of this machine with the address and the host key of the server. */
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
    call.printResult({ host: aliasOf(sandbox), settings }, configOf(sandbox, settings))
    return undefined
  }
  const keys = await client.sshKeys.list({ signal }).all()
  if (keys.length === 0)
    throw new CliError('unauthorized', 'There are no SSH keys', {
      hint: 'Add yours with `dormouse ssh-key add`.',
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
    call.printResult({ command: ['ssh', ...args] }, '')
    return undefined
  }
  if (!keys.some(({ confirmed }) => confirmed))
    throw new CliError('unauthorized', 'No SSH key is confirmed', {
      hint: `Run \`dormouse ssh-key confirm ${keys[0]?.name}\` on the machine with its private key.`,
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
