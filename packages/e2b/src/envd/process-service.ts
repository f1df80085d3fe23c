import type { DescService } from '@bufbuild/protobuf'
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from '@connectrpc/connect'
import type { BackendSandbox } from '../backend.ts'
import type {
  ProcessEventMessage,
  ProcessInput,
  SelectRequest,
  SendInputRequest,
  SendSignalRequest,
  StartRequest,
  StreamInputRequest,
  UpdateRequest,
} from '../wire/process.ts'
import { endedStream, keepaliveMs, sandboxOf, translated, userOf } from './caller.ts'
import { followProcess, KEEPALIVE, messageOf } from './process-events.ts'
import type { StartedProcesses } from './started-processes.ts'
import { withKeepalive } from './with-keepalive.ts'

/** The longest time that a timer of Node.js takes. */
const TIMER_MAX_MS = 2 ** 31 - 1

const SIGNALS: Record<number, string> = { 9: 'SIGKILL', 15: 'SIGTERM' }

/** E2B's process service. Requests and answers are the messages of `wire/process.ts`. */
export function processMethods(started: StartedProcesses): Partial<ServiceImpl<DescService>> {
  const methods = new ProcessMethods(started)
  return {
    list: (_request: object, context: HandlerContext) => translated(() => methods.list(context)),
    start: (request: StartRequest, context: HandlerContext) => methods.start(request, context),
    connect: (request: SelectRequest, context: HandlerContext) => methods.connect(request, context),
    update: (request: UpdateRequest, context: HandlerContext) =>
      translated(() => methods.update(request, context)),
    sendInput: (request: SendInputRequest, context: HandlerContext) =>
      translated(() => methods.sendInput(request, context)),
    streamInput: (requests: AsyncIterable<StreamInputRequest>, context: HandlerContext) =>
      translated(() => methods.streamInput(requests, context)),
    sendSignal: (request: SendSignalRequest, context: HandlerContext) =>
      translated(() => methods.sendSignal(request, context)),
    closeStdin: (request: SelectRequest, context: HandlerContext) =>
      translated(() => methods.closeStdin(request, context)),
  } as unknown as Partial<ServiceImpl<DescService>>
}

class ProcessMethods {
  readonly #started: StartedProcesses

  constructor(started: StartedProcesses) {
    this.#started = started
  }

  async list(context: HandlerContext): Promise<object> {
    const sandbox = sandboxOf(context)
    const processes = await sandbox.use({ cause: 'process', what: 'listing processes' }, (guest) =>
      guest.processes.list(),
    )
    return {
      processes: processes
        .filter(({ state }) => state === 'running')
        .map(({ processId, pid, command }) => {
          const known = this.#started.find(sandbox.id, processId)
          const config = known?.config ?? { cmd: command, args: [], envs: {} }
          return { pid, config, ...(known?.tag !== undefined && { tag: known.tag }) }
        }),
    }
  }

  async *start(request: StartRequest, context: HandlerContext): AsyncGenerator<ProcessEventMessage> {
    const sandbox = sandboxOf(context)
    const { process: config, pty, tag, stdin = true } = request
    if (config === undefined || config.cmd === '')
      throw new ConnectError('the command is empty', Code.InvalidArgument)
    const size = pty?.size
    const what = `starting ${[config.cmd, ...config.args].join(' ').slice(0, 80)}`
    const processId = await translated(() =>
      sandbox.use({ cause: 'process', what, signal: context.signal }, (guest) =>
        guest.processes.start({
          args: [config.cmd, ...config.args],
          env: { E2B_SANDBOX_ID: sandbox.id, ...config.envs },
          ...(config.cwd && { cwd: config.cwd }),
          ...userOf(context),
          ...(size === undefined ? { stdin } : { pty: { cols: size.cols || 80, rows: size.rows || 24 } }),
        }),
      ),
    )
    this.#started.add(sandbox.id, processId, { config, tag })
    const deadline = killAtDeadline(sandbox, processId, context.timeoutMs())
    for await (const message of this.#follow(sandbox, context, {
      ...{ processId, isPty: size !== undefined, after: -1 },
    })) {
      if (message.event.event.case === 'end') clearTimeout(deadline)
      yield message
    }
  }

  async *connect({ process }: SelectRequest, context: HandlerContext): AsyncGenerator<ProcessEventMessage> {
    const sandbox = sandboxOf(context)
    const { processId, pid, pty, state } = await translated(() => this.#started.select(sandbox, process))
    // Before the client knows that it is connected: what the process writes from then on must not be missed. The end of
    // a process that is over is still in its journal.
    const after = state === 'running' ? await translated(() => latestSeq(sandbox, processId)) : -1
    yield { event: { event: { case: 'start', value: { pid } } } }
    const events = this.#follow(sandbox, context, { processId, isPty: pty, after })
    for await (const message of events) {
      const { case: kind } = message.event.event
      if (kind === 'start' || (state !== 'running' && kind !== 'end')) continue
      yield message
    }
  }

  /** Ends with the process. A lost client changes nothing. */
  async *#follow(
    sandbox: BackendSandbox,
    context: HandlerContext,
    { processId, isPty, after }: { processId: string; isPty: boolean; after: number },
  ): AsyncGenerator<ProcessEventMessage> {
    const { signal } = context
    try {
      for await (const event of withKeepalive(
        followProcess(sandbox, processId, { after, signal }),
        keepaliveMs(context),
      )) {
        const message = event === undefined ? KEEPALIVE : messageOf(event, isPty)
        if (message !== undefined) yield message
      }
    } catch (error) {
      throw signal.aborted ? signal.reason : endedStream(sandbox, error)
    }
  }

  async update({ process, pty }: UpdateRequest, context: HandlerContext): Promise<object> {
    const sandbox = sandboxOf(context)
    const { processId } = await this.#started.select(sandbox, process)
    const size = pty?.size
    if (size !== undefined)
      await sandbox.use({ cause: 'process', what: 'resizing a terminal' }, (guest) =>
        guest.processes.resize(processId, { cols: size.cols, rows: size.rows }),
      )
    return {}
  }

  async sendInput({ process, input }: SendInputRequest, context: HandlerContext): Promise<object> {
    const sandbox = sandboxOf(context)
    const { processId } = await this.#started.select(sandbox, process)
    await this.#write(sandbox, processId, input, context.signal)
    return {}
  }

  async streamInput(requests: AsyncIterable<StreamInputRequest>, context: HandlerContext): Promise<object> {
    const sandbox = sandboxOf(context)
    let processId: string | undefined
    for await (const { event } of requests) {
      if (event.case === 'start')
        processId = (await this.#started.select(sandbox, event.value.process)).processId
      if (event.case !== 'data') continue
      if (processId === undefined)
        throw new ConnectError('the first message must start the stream', Code.InvalidArgument)
      await this.#write(sandbox, processId, event.value.input, context.signal)
    }
    return {}
  }

  async sendSignal({ process, signal }: SendSignalRequest, context: HandlerContext): Promise<object> {
    const sandbox = sandboxOf(context)
    const name = SIGNALS[signal]
    if (name === undefined) throw new ConnectError(`invalid signal: ${signal}`, Code.Unimplemented)
    const { processId, state } = await this.#started.select(sandbox, process)
    if (state !== 'running') throw new ConnectError(`process ${processId} has ended`, Code.NotFound)
    await sandbox.use({ cause: 'process', what: `sending ${name}` }, (guest) =>
      guest.processes.signal(processId, name),
    )
    return {}
  }

  async closeStdin({ process }: SelectRequest, context: HandlerContext): Promise<object> {
    const sandbox = sandboxOf(context)
    const { processId } = await this.#started.select(sandbox, process)
    await sandbox.use({ cause: 'process', what: 'closing the input of a process' }, (guest) =>
      guest.processes.writeStdin(processId, new Uint8Array(), { close: true }),
    )
    return {}
  }

  async #write(
    sandbox: BackendSandbox,
    processId: string,
    input: ProcessInput | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const data = input?.input.value
    if (data === undefined) throw new ConnectError('the input is empty', Code.InvalidArgument)
    await sandbox.use({ cause: 'process', what: `input of process ${processId}`, signal }, (guest) =>
      guest.processes.writeStdin(processId, data, { close: false, signal }),
    )
  }
}

/** Kills a process at the deadline of the call that started it, also when its client has disconnected by then. */
function killAtDeadline(
  sandbox: BackendSandbox,
  processId: string,
  timeoutMs: number | undefined,
): NodeJS.Timeout | undefined {
  if (timeoutMs === undefined || timeoutMs > TIMER_MAX_MS) return undefined
  const kill = () => {
    // One that sleeps is not woken for this.
    if (sandbox.view().state !== 'running') return
    void sandbox
      .use({ cause: 'process', what: 'ending a process at its deadline' }, (guest) =>
        guest.processes.signal(processId, 'SIGKILL'),
      )
      .catch(() => {})
  }
  return setTimeout(kill, Math.max(0, timeoutMs)).unref()
}

/** The `seq` of the last event so far. */
async function latestSeq(sandbox: BackendSandbox, processId: string): Promise<number> {
  return sandbox.use({ cause: 'process', what: 'reading the journal of a process' }, async (guest) => {
    let latest = -1
    for await (const { seq } of guest.processes.events(processId, { after: -1, follow: false })) latest = seq
    return latest
  })
}
