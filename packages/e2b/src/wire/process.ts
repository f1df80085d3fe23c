import { describeFile } from './describe-file.ts'

/** Starts, lists, follows and signals processes. Selectors name a process by pid or by the tag of its start. */
export const processService = describeFile({
  package: 'process',
  service: 'Process',
  methods: {
    List: 'ListRequest -> ListResponse',
    Connect: 'ConnectRequest -> stream ConnectResponse',
    Start: 'StartRequest -> stream StartResponse',
    Update: 'UpdateRequest -> UpdateResponse',
    StreamInput: 'stream StreamInputRequest -> StreamInputResponse',
    SendInput: 'SendInputRequest -> SendInputResponse',
    SendSignal: 'SendSignalRequest -> SendSignalResponse',
    CloseStdin: 'CloseStdinRequest -> CloseStdinResponse',
  },
  enums: { Signal: { SIGNAL_UNSPECIFIED: 0, SIGNAL_SIGTERM: 15, SIGNAL_SIGKILL: 9 } },
  messages: {
    Size: { cols: '1 uint32', rows: '2 uint32' },
    PTY: { size: '1 Size' },
    ProcessConfig: { cmd: '1 string', args: '2 repeated string', envs: '3 map', cwd: '4 optional string' },
    ProcessSelector: { pid: '1 selector: uint32', tag: '2 selector: string' },
    ProcessInput: { stdin: '1 input: bytes', pty: '2 input: bytes' },
    ProcessInfo: { config: '1 ProcessConfig', pid: '2 uint32', tag: '3 optional string' },
    KeepAlive: {},
    StartEvent: { pid: '1 uint32' },
    DataEvent: { stdout: '1 output: bytes', stderr: '2 output: bytes', pty: '3 output: bytes' },
    EndEvent: { exit_code: '1 sint32', exited: '2 bool', status: '3 string', error: '4 optional string' },
    ProcessEvent: {
      start: '1 event: StartEvent',
      data: '2 event: DataEvent',
      end: '3 event: EndEvent',
      keepalive: '4 event: KeepAlive',
    },
    InputStart: { process: '1 ProcessSelector' },
    InputData: { input: '2 ProcessInput' },
    ListRequest: {},
    ListResponse: { processes: '1 repeated ProcessInfo' },
    ConnectRequest: { process: '1 ProcessSelector' },
    ConnectResponse: { event: '1 ProcessEvent' },
    StartRequest: {
      process: '1 ProcessConfig',
      pty: '2 optional PTY',
      tag: '3 optional string',
      stdin: '4 optional bool',
    },
    StartResponse: { event: '1 ProcessEvent' },
    UpdateRequest: { process: '1 ProcessSelector', pty: '2 optional PTY' },
    UpdateResponse: {},
    StreamInputRequest: {
      start: '1 event: InputStart',
      data: '2 event: InputData',
      keepalive: '3 event: KeepAlive',
    },
    StreamInputResponse: {},
    SendInputRequest: { process: '1 ProcessSelector', input: '2 ProcessInput' },
    SendInputResponse: {},
    SendSignalRequest: { process: '1 ProcessSelector', signal: '2 Signal' },
    SendSignalResponse: {},
    CloseStdinRequest: { process: '1 ProcessSelector' },
    CloseStdinResponse: {},
  },
})

/** A member of a oneof; `undefined` when the client set none. */
type Case<Name extends string, Value> = { case: Name; value: Value }
type OneOf<Members> = Members | { case: undefined; value?: undefined }

export interface ProcessConfig {
  readonly cmd: string
  readonly args: readonly string[]
  readonly envs: Readonly<Record<string, string>>
  readonly cwd?: string
}

export interface ProcessSelector {
  readonly selector: OneOf<Case<'pid', number> | Case<'tag', string>>
}

export interface ProcessInput {
  readonly input: OneOf<Case<'stdin' | 'pty', Uint8Array>>
}

export interface PtySize {
  readonly size?: { readonly cols: number; readonly rows: number }
}

export interface StartRequest {
  readonly process?: ProcessConfig
  readonly pty?: PtySize
  readonly tag?: string
  readonly stdin?: boolean
}

export interface SelectRequest {
  readonly process?: ProcessSelector
}

export interface UpdateRequest extends SelectRequest {
  readonly pty?: PtySize
}

export interface SendInputRequest extends SelectRequest {
  readonly input?: ProcessInput
}

export interface SendSignalRequest extends SelectRequest {
  readonly signal: number
}

export interface StreamInputRequest {
  readonly event: OneOf<
    Case<'start', SelectRequest> | Case<'data', { readonly input?: ProcessInput }> | Case<'keepalive', object>
  >
}

export interface ProcessEventMessage {
  readonly event: {
    readonly event:
      | Case<'start', { pid: number }>
      | Case<'data', { output: Case<'stdout' | 'stderr' | 'pty', Uint8Array> }>
      | Case<'end', { exitCode: number; exited: boolean; status: string; error?: string }>
      | Case<'keepalive', object>
  }
}
