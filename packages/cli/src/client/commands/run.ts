import { readFile } from 'node:fs/promises'
import { onAbort } from '@dormouse/async'
import { Sandbox } from 'dormouse'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { type CreateFlags, createOptions, toCreateOptions } from '../create-flags.ts'
import { ensureContext } from '../ensure-context.ts'
import type { Language } from '../language.ts'
import { readAll } from '../read-all.ts'
import { ResultSaver } from '../result-saver.ts'
import { signalStatus } from '../show-error.ts'
import { isPlotHidden, showEvent } from '../show-event.ts'
import { suggestTemplate } from '../suggest-template.ts'

interface RunFlags extends CreateFlags {
  readonly file?: string
  readonly language?: Language
  readonly context?: string
  readonly python?: string
  readonly timeout?: number
  readonly new?: boolean
  readonly save?: string
}

export async function run(
  call: Call,
  first: string | undefined,
  second: string | undefined,
  flags: RunFlags,
): Promise<number> {
  if (flags.new === true && second !== undefined)
    throw new UsageError('with --new, the only argument is the code', "Use `dormouse run --new 'print(1)'`.")
  if (flags.new !== true) refuseCreateFlags(flags)
  if (flags.new !== true && first === undefined)
    throw new UsageError(
      '`run` needs a sandbox',
      "Run `dormouse ls` to list sandboxes, or `dormouse run --new 'CODE'` to create one.",
    )
  const code = await codeOf(call, flags.new === true ? first : second, flags.file)
  if (flags.new !== true) return runIn(call, await call.sandbox(first ?? ''), code, flags)
  const options = { ...(await toCreateOptions(call, flags)), ephemeral: true }
  const sandbox = await call.withProgress(
    'Creating a sandbox',
    suggestTemplate(
      call,
      flags.template,
      Sandbox.create(options, { client: call.client, signal: call.signal }),
    ),
  )
  try {
    return await runIn(call, sandbox, code, flags)
  } finally {
    await sandbox.delete()
  }
}

function refuseCreateFlags(flags: RunFlags): void {
  const given = createOptions().find((option) => Object.hasOwn(flags, option.attributeName()))
  if (given !== undefined)
    throw new UsageError(
      `${given.long} needs --new`,
      'It is a property of a new sandbox. `dormouse update SANDBOX` changes limits of one that exists.',
    )
}

async function codeOf(call: Call, code: string | undefined, file: string | undefined): Promise<string> {
  if (file !== undefined && code !== undefined) throw new UsageError('use either code or -f FILE, not both')
  if (file !== undefined && file !== '-') return readFile(file, 'utf8')
  if (code !== undefined && code !== '-') return code
  if (call.io.stdin.isTTY && code !== '-' && file !== '-')
    throw new UsageError(
      'there is no code to run',
      'Pass it as an argument, with -f FILE, or through a pipe.',
    )
  return (await readAll(call.io.stdin, call.signal)).toString()
}

/** Ctrl-C interrupts the run; its remaining output is still shown. */
async function runIn(call: Call, sandbox: Sandbox, code: string, flags: RunFlags): Promise<number> {
  const { language, context, timeout } = flags
  const { io, signal } = call
  signal.throwIfAborted()
  const saver = flags.save === undefined ? undefined : new ResultSaver(flags.save)
  await ensureContext(sandbox, context, { language, python: flags.python, signal })
  let runId: string | undefined
  const interrupt = () => {
    // The run may have ended by itself.
    if (runId !== undefined) sandbox.runs.interrupt(runId).catch(() => {})
  }
  const options = { ...(language !== undefined && { language }), context, timeoutMs: timeout }
  using _listener = onAbort(signal, interrupt)
  if (call.isJson) {
    const result = await sandbox.runCode(code, { ...options, signal })
    for (const data of result.results) saver?.save(data)
    call.printResult(saver === undefined ? result : { ...result, saved: saver.saved }, '')
    return result.exitCode
  }
  let exitCode = 1
  let isPlotMissed = false
  for await (const event of sandbox.runCodeStream(code, options)) {
    if (event.type === 'start') {
      runId = event.runId
      if (signal.aborted) interrupt()
    }
    if (event.type === 'exit') exitCode = event.exitCode
    if (event.type === 'result') saver?.save(event.data)
    isPlotMissed ||= isPlotHidden(event, io)
    showEvent(event, io)
  }
  if (saver !== undefined) call.note(saver.summary())
  else if (isPlotMissed) call.note('This terminal cannot show plots. `--save plot.png` saves them.')
  return signal.aborted ? signalStatus(signal) : exitCode
}
