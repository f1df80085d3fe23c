import { spawnSync } from 'node:child_process'
import type { Pty, Sandbox } from 'dormouse'
import { WebSocket } from 'ws'
import type { Call } from '../call.ts'
import { EscapeKeys } from '../escape-keys.ts'
import { Problem, UsageProblem } from '../problem.ts'
import { ScreenState } from '../screen-state.ts'
import { signalStatus } from '../show-error.ts'
import { shortName } from './ls.ts'

interface ShFlags {
  readonly user?: string
  readonly cwd?: string
  readonly env?: Record<string, string>
  readonly attach?: number
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
    throw new UsageProblem(
      '`sh` needs a terminal',
      `\`dormouse exec ${ref} -- bash\` reads commands from a pipe.`,
    )
  const sandbox = await call.sandbox(ref, call.connect({ WebSocket: WebSocket as never }))
  const screen = new ScreenState()
  const onData = (text: string) => {
    screen.see(text)
    io.stdout.write(text)
  }
  const pty = await call.during('Opening a terminal', open(sandbox, call, command, flags, onData))
  const end = await talk(call, pty, screen).catch((error: unknown) => {
    throw lost(error, sandbox, pty)
  })
  if (call.isJson) call.line({ pid: pty.pid, ...end })
  if (end.how === 'exited') return end.exitCode
  call.note(`Left. It goes on: ${backTo(sandbox, pty)} comes back to it.`)
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

/** Terminals that were made by programs often have none. */
function sizeOf({ columns, rows }: Call['io']['stdout']): { cols: number; rows: number } {
  return { cols: columns || 80, rows: rows || 24 }
}

/** Everything typed goes inside, Ctrl-C too. The terminal is as it was before, however this ends. */
async function talk({ io, signal }: Call, pty: Pty, screen: ScreenState): Promise<End> {
  const { stdin, stdout } = io
  const keys = new EscapeKeys()
  let leave: (end: End) => void = () => {}
  const left = new Promise<End>((resolve) => {
    leave = resolve
  })
  const onKeys = (data: Uint8Array) => {
    const { send, detach } = keys.feed(data)
    if (send.length > 0) pty.write(send).catch(() => {})
    if (detach) leave({ how: 'left' })
  }
  const onResize = () => {
    pty.resize(sizeOf(stdout)).catch(() => {})
  }
  const onStop = () => leave({ how: 'stopped' })
  signal.addEventListener('abort', onStop, { once: true })
  stdin.setRawMode(true)
  leaveOutputAlone()
  stdin.on('data', onKeys)
  stdin.once('end', onStop)
  stdin.resume()
  stdout.on('resize', onResize)
  // The window may have changed while the terminal was opened, and one that was left has the size of another window.
  onResize()
  let hasExited = false
  try {
    const end = await Promise.race([
      pty.wait().then(({ exitCode }): End => ({ how: 'exited', exitCode })),
      left,
    ])
    hasExited = end.how === 'exited'
    return end
  } finally {
    pty.disconnect()
    stdout.off('resize', onResize)
    stdin.off('data', onKeys)
    stdin.setRawMode(false)
    stdin.pause()
    signal.removeEventListener('abort', onStop)
    if (!hasExited) stdout.write(`${screen.restore()}\r\n`)
  }
}

/** Node's raw mode still makes a new line return to the first column, which programs that draw do not mean. */
function leaveOutputAlone(): void {
  spawnSync('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'] })
}

function lost(error: unknown, sandbox: Sandbox, pty: Pty): Problem {
  const reason = error instanceof Error ? error.message : String(error)
  return new Problem('connection_lost', `The connection to the terminal is lost: ${reason}`, {
    hint: `The shell may still be there: ${backTo(sandbox, pty)} comes back to it.`,
  })
}

function backTo(sandbox: Sandbox, pty: Pty): string {
  return `\`dormouse sh ${shortName(sandbox)} --attach ${pty.pid}\``
}
