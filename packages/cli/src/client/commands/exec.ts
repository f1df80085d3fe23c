import type { Readable } from 'node:stream'
import { onAbort } from '@dormouse/async'
import { type Command, DormouseError } from 'dormouse'
import type { Call } from '../call.ts'
import { CliError } from '../cli-error.ts'
import { readAll } from '../read-all.ts'
import { signalStatus } from '../show-error.ts'
import { shortName } from './ls.ts'

interface ExecFlags {
  readonly user?: string
  readonly cwd?: string
  readonly env?: Record<string, string>
  readonly timeout?: number
  readonly detach?: boolean
  readonly keepAwake: boolean
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
  const keepAwake = flags.keepAwake ? {} : { keepAwake: false }
  if (flags.detach === true) {
    const started = sandbox.commands.start(argv, { ...options, ...keepAwake, signal })
    const { id, pid } = await started.catch(notStarted)
    call.printResult({ processId: id, pid }, `${id}\n`)
    const name = shortName(sandbox)
    call.note(`It is process ${pid} of ${name}. End it with \`dormouse exec ${name} -- kill ${pid}\`.`)
    return 0
  }
  if (call.isJson) {
    const input = io.stdin.isTTY ? undefined : await readAll(io.stdin, signal)
    const result = await sandbox.commands.run(argv, { ...options, input, signal }).catch(notStarted)
    call.printResult(result, '')
    return result.exitCode
  }
  const command = await sandbox.commands
    .start(argv, { ...options, ...keepAwake, stdin: true })
    .catch(notStarted)
  // The program decides how it handles Ctrl-C; its output is still shown.
  using _listener = onAbort(signal, () => {
    command.kill(signal.reason === 'SIGTERM' ? 'SIGTERM' : 'SIGINT').catch(() => {})
  })
  const feeding = feed(command, io.stdin)
  try {
    const exitCode = await show(call, command)
    return signal.aborted ? signalStatus(signal) : exitCode
  } finally {
    io.stdin.destroy()
    await feeding
  }
}

/** Exits with 127, as a shell does when it does not find a program. */
function notStarted(error: unknown): never {
  if (!(error instanceof DormouseError) || error.code !== 'not_found') throw error
  throw new CliError('not_found', error.message, {
    hint: "For a shell command line, use `dormouse exec SANDBOX -- bash -c 'COMMAND LINE'`.",
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
        `dormouse: dropped ${event.bytes} bytes of output that arrived faster than they could be read\n`,
      )
    else if (event.type === 'exit') {
      exitCode = event.exitCode
      if (event.timedOut === true) io.stderr.write('dormouse: killed after its timeout\n')
      if (event.outOfMemory !== undefined) io.stderr.write(`dormouse: ${event.outOfMemory}\n`)
    }
  }
  return exitCode
}

/** Sends stdin no faster than the program reads it. A program need not read all of it. */
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
