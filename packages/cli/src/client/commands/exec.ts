import type { Readable } from 'node:stream'
import { type Command, DormouseError } from 'dormouse'
import type { Call } from '../call.ts'
import { Problem } from '../problem.ts'
import { readAll } from '../read-all.ts'
import { signalStatus } from '../show-error.ts'

interface ExecFlags {
  readonly user?: string
  readonly cwd?: string
  readonly env?: Record<string, string>
  readonly timeout?: number
}

export async function exec(
  call: Call,
  ref: string,
  argv: readonly string[],
  flags: ExecFlags,
): Promise<number> {
  const { io, signal } = call
  const sandbox = await call.sandbox(ref)
  const options = {
    ...(flags.user === undefined ? {} : { user: flags.user }),
    ...(flags.cwd === undefined ? {} : { cwd: flags.cwd }),
    ...(flags.env === undefined ? {} : { env: flags.env }),
    ...(flags.timeout === undefined ? {} : { timeoutMs: flags.timeout }),
  }
  if (call.isJson) {
    const input = io.stdin.isTTY ? undefined : await readAll(io.stdin, signal)
    const result = await sandbox.commands.run(argv, { ...options, input, signal }).catch(notStarted)
    call.answer(result, '')
    return result.exitCode
  }
  const command = await sandbox.commands.start(argv, { ...options, stdin: true }).catch(notStarted)
  // The program decides what Ctrl-C means; what it says then is still shown.
  const interrupt = () => {
    command.kill(signal.reason === 'SIGTERM' ? 'SIGTERM' : 'SIGINT').catch(() => {})
  }
  signal.addEventListener('abort', interrupt)
  if (signal.aborted) interrupt()
  const feeding = feed(command, io.stdin)
  try {
    const exitCode = await show(call, command)
    return signal.aborted ? signalStatus(signal) : exitCode
  } finally {
    signal.removeEventListener('abort', interrupt)
    io.stdin.destroy()
    await feeding
  }
}

/** 127, as a shell says of a program that is not there. */
function notStarted(error: unknown): never {
  if (!(error instanceof DormouseError) || error.code !== 'not_found') throw error
  throw new Problem('not_found', error.message, {
    hint: "A line for a shell goes like this: `dormouse exec SANDBOX -- bash -c 'LINE'`.",
    exitCode: 127,
  })
}

async function show({ io }: Call, command: Command): Promise<number> {
  let exitCode = 1
  for await (const event of command.events()) {
    if (io.signal.reason === 'SIGPIPE') continue
    if (event.type === 'stdout') io.stdout.write(event.data)
    else if (event.type === 'stderr') io.stderr.write(event.data)
    else if (event.type === 'truncated')
      io.stderr.write(
        `dormouse: ${event.bytes} bytes of output were written faster than they could be read\n`,
      )
    else if (event.type === 'exit') {
      exitCode = event.exitCode
      if (event.timedOut === true) io.stderr.write('dormouse: killed, its time was over\n')
    }
  }
  return exitCode
}

/** As it is typed or piped in, no faster than it is read inside. A program that does not read all of it is no failure. */
async function feed(command: Command, stdin: Readable): Promise<void> {
  try {
    for await (const piece of stdin) await command.sendStdin(piece as Uint8Array)
    await command.sendStdin('', { close: true })
  } catch (error) {
    if (!(error instanceof DormouseError) && !isEndOfStream(error)) throw error
  }
}

function isEndOfStream(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return code === 'ERR_STREAM_PREMATURE_CLOSE' || code === 'EIO'
}
