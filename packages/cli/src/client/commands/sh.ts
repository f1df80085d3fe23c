import { spawnSync } from 'node:child_process'
import { onAbort } from '@dormouse/async'
import type { Pty, Sandbox } from 'dormouse'
import { WebSocket } from 'ws'
import type { Call } from '../call.ts'
import { CliError, UsageError } from '../cli-error.ts'
import { EscapeKeys } from '../escape-keys.ts'
import { signalStatus } from '../show-error.ts'
import { TerminalModes } from '../terminal-modes.ts'
import { shortName } from './ls.ts'

interface ShFlags {
  readonly user?: string
  readonly cwd?: string
  readonly env?: Record<string, string>
  readonly attach?: string
}

type End = { readonly how: 'exited'; readonly exitCode: number } | { readonly how: 'left' | 'stopped' }

export async function sh(
  call: Call,
  ref: string,
  command: readonly string[],
  flags: ShFlags,
): Promise<number> {
  const { io } = call
  if (!io.stdin.isTTY || !io.stdout.isTTY)
    throw new UsageError(
      '`sh` needs a terminal',
      `Use \`dormouse exec ${ref} -- bash\` to read commands from a pipe.`,
    )
  const sandbox = await call.sandbox(ref, call.connect({ WebSocket: WebSocket as never }))
  const modes = new TerminalModes()
  const onData = (text: string) => {
    modes.observe(text)
    io.stdout.write(text)
  }
  const pty = await call.withProgress('Opening a terminal', open(sandbox, call, command, flags, onData))
  const end = await attach(call, pty, modes).catch((error: unknown) => {
    throw toConnectionError(error, sandbox, pty)
  })
  if (call.isJson) call.printJsonLine({ processId: pty.id, pid: pty.pid, ...end })
  if (end.how === 'exited') return end.exitCode
  call.note(`Detached; the shell keeps running. Return with ${attachCommand(sandbox, pty)}.`)
  return end.how === 'stopped' ? signalStatus(call.signal) : 0
}

function open(
  sandbox: Sandbox,
  { io, signal }: Call,
  command: readonly string[],
  { user, cwd, env, attach }: ShFlags,
  onData: (text: string) => void,
): Promise<Pty> {
  if (attach !== undefined) return sandbox.pty.connect(attach, { onData, signal })
  return sandbox.pty.create({
    onData,
    signal,
    ...sizeOf(io.stdout),
    env: { TERM: io.env['TERM'] || 'xterm-256color', ...env },
    ...(user === undefined ? {} : { user }),
    ...(cwd === undefined ? {} : { cwd }),
    ...(command.length === 0 ? {} : { command }),
  })
}

/** Terminals that programs open often have no size. */
function sizeOf({ columns, rows }: Call['io']['stdout']): { cols: number; rows: number } {
  return { cols: columns || 80, rows: rows || 24 }
}

/** Sends everything typed to the terminal inside, also Ctrl-C, and always restores the local terminal. */
async function attach({ io, signal }: Call, pty: Pty, modes: TerminalModes): Promise<End> {
  const { stdin, stdout } = io
  const keys = new EscapeKeys()
  let leave: (end: End) => void = () => {}
  const ended = new Promise<End>((resolve, reject) => {
    leave = resolve
    pty.wait().then(({ exitCode }) => resolve({ how: 'exited', exitCode }), reject)
  })
  const onKeys = (data: Uint8Array) => {
    const { send, detach } = keys.feed(data)
    // `pty.wait` reports a lost connection.
    if (send.length > 0) pty.write(send).catch(() => {})
    if (detach) leave({ how: 'left' })
  }
  const onResize = () => {
    // A shell that has ended needs no size.
    pty.resize(sizeOf(stdout)).catch(() => {})
  }
  const onStop = () => leave({ how: 'stopped' })
  using _listener = onAbort(signal, onStop)
  stdin.setRawMode(true)
  disableOutputProcessing()
  stdin.on('data', onKeys)
  stdin.once('end', onStop)
  stdin.resume()
  stdout.on('resize', onResize)
  // The local window may differ from the size that the terminal inside was opened with.
  onResize()
  let hasExited = false
  try {
    const end = await ended
    hasExited = end.how === 'exited'
    return end
  } finally {
    pty.disconnect()
    stdout.off('resize', onResize)
    stdin.off('data', onKeys)
    stdin.setRawMode(false)
    stdin.pause()
    if (!hasExited) stdout.write(`${modes.resetSequence()}\r\n`)
  }
}

/** Node.js leaves output processing on in raw mode, which moves the cursor to the first column after a line feed. */
function disableOutputProcessing(): void {
  spawnSync('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'] })
}

function toConnectionError(error: unknown, sandbox: Sandbox, pty: Pty): CliError {
  const reason = error instanceof Error ? error.message : String(error)
  return new CliError('connection_lost', `Lost the connection to the terminal: ${reason}`, {
    hint: `The shell may still run. Return with ${attachCommand(sandbox, pty)}.`,
  })
}

function attachCommand(sandbox: Sandbox, pty: Pty): string {
  return `\`dormouse sh ${shortName(sandbox)} --attach ${pty.id}\``
}
