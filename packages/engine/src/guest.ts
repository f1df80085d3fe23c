import type { Duplex } from 'node:stream'
import type { Language, ProcessEvent, RunEvent, RunId, RunResult } from '@dormouse/contracts'

/**
 * What callers can do inside a burrow. All methods reject with a DormouseError; for bad arguments it is
 * `invalid_argument`, and nothing has changed. Aborting `signal` ends the call, never the run or process.
 */
export interface Guest {
  readonly runs: GuestRuns
  readonly contexts: GuestContexts
  readonly variables: GuestVariables
  readonly processes: GuestProcesses
  readonly files: GuestFiles
  readonly ports: GuestPorts
  info(): Promise<GuestInfo>
}

export interface GuestInfo {
  readonly contexts: number
  readonly processes: number
  readonly runs: number
  readonly rssBytes: number
}

export interface Follow {
  /** Only events after this `seq`; -1 for all that the journal holds. */
  readonly after?: number
  /** Wait for more events until `exit`; otherwise stop at the present end of the journal. */
  readonly follow?: boolean
  readonly signal?: AbortSignal
}

export interface StartRun {
  readonly code: string
  /** Default: the language of the context. */
  readonly language?: Language
  /** Default: the one of the language. It is created if it does not exist. */
  readonly context?: string
  readonly timeoutMs?: number
  readonly runId?: RunId
  /** Whether the caller answers the `input` events of the code. Only for languages that ask. */
  readonly input?: boolean
}

/** The answer to an `input` event. */
export interface RunInput {
  /** The `seq` of the event. */
  readonly seq: number
  /** Undefined: the input has ended, and the code gets an EOFError. */
  readonly text?: string
}

/** Names that fit half-typed code. */
export interface Completions {
  /** At most 200. */
  readonly matches: readonly string[]
  /** The end of the code, which a match replaces. */
  readonly replaces: string
  /** There are more matches than these. */
  readonly more: boolean
}

export interface GuestRuns {
  /**
   * Runs to the end and collects the output. Output beyond the limit is cut in the middle and counted in `truncated`.
   */
  run(request: StartRun, options?: { signal?: AbortSignal }): Promise<RunResult>
  /** Runs and yields events as they come. Leaving the loop does not end the run. */
  stream(request: StartRun, options?: { signal?: AbortSignal }): AsyncIterable<RunEvent>
  events(runId: string, options?: Follow): AsyncIterable<RunEvent>
  interrupt(runId: string): Promise<'interrupting' | 'cancelled' | 'finished'>
  /** Throws `conflict` when the run does not wait for this answer. */
  input(runId: string, answer: RunInput): Promise<void>
}

export interface CreateContext {
  readonly context: string
  readonly user?: string
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  /** Default: Python. Throws `language_missing` when the sandbox does not have it. */
  readonly language?: Language
  /** The interpreter of a Python context, or a virtual environment. */
  readonly python?: string
}

export interface ContextInfo {
  readonly context: string
  readonly language: Language
  readonly user: string
  readonly pid: number | null
  readonly state: 'starting' | 'idle' | 'busy' | 'dead'
  readonly restarts: number
}

export interface GuestContexts {
  create(request: CreateContext): Promise<ContextInfo>
  list(): Promise<readonly ContextInfo[]>
  delete(context: string): Promise<void>
  /**
   * Imports modules in the context `default`, in this order, at most 64. Returns those that failed; `output` says why.
   */
  preload(modules: readonly string[], options?: { signal?: AbortSignal }): Promise<readonly string[]>
  /** Completes half-typed code. Throws `conflict` while the context has a run, and for a language without completion. */
  complete(context: string, code: string, options?: { signal?: AbortSignal }): Promise<Completions>
  /** Output of threads and children that outlive their runs. */
  output(context: string, options?: Follow): AsyncIterable<RunEvent>
}

/** One variable of a context, as far as it can be seen without running code of the sandbox. */
export interface VariableInfo {
  readonly name: string
  readonly type: string
  /** Elements, rows and columns, or the sides of an array. */
  readonly shape?: readonly number[]
  /** An estimate; absent for types that are not known. */
  readonly bytes?: number
  /** At most 200 characters. */
  readonly preview: string
  /** What `rows` shows of it. */
  readonly opens?: 'table' | 'image' | 'text'
}

export interface ContextVariables {
  readonly context: string
  readonly language: Language
  /** `busy`: a run is under way, and its variables are not known. */
  readonly state: 'idle' | 'busy'
  readonly variables: readonly VariableInfo[]
  /** There are more variables than these. */
  readonly more: boolean
}

export interface ReadRows {
  readonly context: string
  readonly name: string
  readonly offset?: number
  readonly limit?: number
  readonly columnOffset?: number
  readonly columns?: number
  /** The position of the column to sort by. */
  readonly sort?: number
  readonly descending?: boolean
  /** The position of a column, and a part of its text or a comparison such as `>5`. */
  readonly filters?: readonly (readonly [column: number, expression: string])[]
}

/** A window of a table. */
export interface VariableTable {
  readonly columns: readonly { readonly name: string; readonly type: string }[]
  /** Missing values are null. */
  readonly rows: readonly { readonly label: string; readonly cells: readonly (string | null)[] }[]
  /** All rows, and those that pass the filters. */
  readonly rowCount: number
  readonly matchCount: number
  readonly columnCount: number
  /** Which part of an array with more dimensions this is. */
  readonly part?: string
}

export interface VariableDetail {
  readonly variable: VariableInfo
  readonly table?: VariableTable
  /** A PNG of at most 512 pixels a side, in base64, and the size of the original. */
  readonly image?: { readonly png: string; readonly width: number; readonly height: number }
  /** The beginning of a text. */
  readonly text?: string
}

/** What contexts have in memory. Runs no code of the sandbox. */
export interface GuestVariables {
  /** Of all contexts that have run something. */
  list(options?: { signal?: AbortSignal; timeoutMs?: number }): Promise<readonly ContextVariables[]>
  /** Throws `conflict` while the context has a run, and `too_large` for tables that are not sorted on the side. */
  rows(request: ReadRows, options?: { signal?: AbortSignal }): Promise<VariableDetail>
}

export type StartProcess = ({ readonly args: readonly string[] } | { readonly shell: string }) & {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  readonly user?: string
  /** Keep stdin open for `writeStdin`; otherwise it reads as empty. */
  readonly stdin?: boolean
  readonly timeoutMs?: number
  readonly pty?: { readonly cols: number; readonly rows: number }
}

export type ConnectProcess = ({ readonly args: readonly string[] } | { readonly shell: string }) &
  Pick<Extract<StartProcess, { shell: string }>, 'cwd' | 'env' | 'user' | 'pty'>

export interface ProcessOutput {
  readonly stream: 'stdout' | 'stderr'
  readonly data: Buffer
}

export interface ProcessExit {
  readonly exitCode: number
  /** The signal that ended it, such as `SIGKILL`. */
  readonly signal: string | undefined
}

/** A process whose input and output are this connection, byte for byte. Each side waits for the other to read. */
export interface ProcessConnection {
  readonly processId: string
  readonly pid: number
  /**
   * The output of the process. The process waits until it is read. Ends when the process has ended and none of its
   * children can write any more. Fails when the sandbox is saved: this end of the connection is not in the snapshot.
   * The process waits for `reconnect`. Can be read once; leaving the loop disconnects.
   */
  readonly output: AsyncIterable<ProcessOutput>
  /** How the process ended. Pre: its output has been read to the end. */
  readonly exit: Promise<ProcessExit>
  /**
   * Returns true when the bytes are on their way, false when the connection has ended. Bytes that the process no longer
   * reads are dropped.
   */
  write(data: Uint8Array): Promise<boolean>
  /** Written bytes that the process has not taken yet, as far as is known. */
  readonly untakenBytes: number
  /** Ends the input. A terminal gets Ctrl-D. */
  end(): void
  /** Disconnects: closes its pipes and hangs up its terminal. The process itself continues. */
  close(): void
}

/** A connection that continues an earlier one. */
export interface ReconnectedProcess {
  readonly connection: ProcessConnection
  /** How much of the input of all connections the process has taken, and whether it has taken its end. */
  readonly inputBytes: number
  readonly inputEnded: boolean
}

export interface ProcessInfo {
  /** Never used again in this sandbox. */
  readonly processId: string
  /** Another process may get it after this one has ended. */
  readonly pid: number
  readonly command: string
  readonly user: string
  readonly state: 'running' | 'exited'
  readonly exitCode?: number
  readonly startedAt: number
  readonly pty: boolean
}

/** A process that works although no run or request waits for it. */
export interface BackgroundProcess {
  readonly pid: number
  readonly command: string
}

/** `process` is the id of a process, or the pid of one that runs now, as text. */
export interface GuestProcesses {
  /** Starts in the background and returns its id. */
  start(request: StartProcess): Promise<string>
  /** Starts and yields events. Leaving the loop does not end the process. */
  stream(request: StartProcess, options?: { signal?: AbortSignal }): AsyncIterable<ProcessEvent>
  events(process: string, options?: Follow): AsyncIterable<ProcessEvent>
  /** Starts a process. Its output goes only to the connection. Aborting `signal` disconnects at any time. */
  connect(request: ConnectProcess, options?: { signal?: AbortSignal }): Promise<ProcessConnection>
  /**
   * Connects again to a process of `connect`, after the sandbox was saved. Its output continues after `receivedBytes`.
   * Throws `conflict` when it cannot, and `not_found` or `invalid_argument` from an agent that does not know it.
   */
  reconnect(
    process: string,
    options: { receivedBytes: number; signal?: AbortSignal },
  ): Promise<ReconnectedProcess>
  list(): Promise<readonly ProcessInfo[]>
  /**
   * Follows the background processes: yields all of them now and whenever one of them has ended. Ends when there is
   * none. Processes with `DORMOUSE_KEEP_AWAKE=0` in their environment do not count.
   */
  background(options?: { signal?: AbortSignal }): AsyncIterable<readonly BackgroundProcess[]>
  /** Signals the whole process group. */
  signal(process: string, signal: string): Promise<void>
  /**
   * Returns the number of bytes written. Closes stdin afterwards unless `close` is false. Several writers take turns by
   * chunk.
   */
  writeStdin(
    process: string,
    data: ByteSource,
    options?: { close?: boolean; signal?: AbortSignal },
  ): Promise<number>
  resize(process: string, size: { cols: number; rows: number }): Promise<void>
}

/** Bytes of any length: at once, or as a stream. */
export type ByteSource = string | Uint8Array | AsyncIterable<Uint8Array>

export interface FileStat {
  readonly path: string
  readonly name: string
  readonly type: 'file' | 'directory' | 'symlink' | 'fifo' | 'socket' | 'device'
  readonly sizeBytes: number
  readonly mode: number
  readonly uid: number
  readonly gid: number
  readonly user: string
  readonly group: string
  readonly modifiedAt: number
  readonly target?: string
  /** Extended attributes of the namespace `user` that are text, without that prefix. Absent where there are none. */
  readonly attributes?: Readonly<Record<string, string>>
}

export interface FileUser {
  readonly user?: string
  readonly signal?: AbortSignal
}

/**
 * One change below a watched path. `ready` comes first. From then on no change is missed without an `overflow`, which
 * means: changes in or below `path` were missed, read it again.
 */
export type FileChange =
  | { readonly type: 'ready' | 'created' | 'modified' | 'deleted' | 'overflow'; readonly path: string }
  | { readonly type: 'moved'; readonly path: string; readonly from: string }

/** An open file: its attributes when it was opened, and its bytes. */
export interface OpenFile {
  readonly stat: FileStat
  /** Read it, or abort the `signal` of the call. */
  readonly data: AsyncIterable<Uint8Array>
}

/** Paths are absolute, or relative to the user's home. */
export interface GuestFiles {
  open(path: string, options?: FileUser & { offset?: number; length?: number }): Promise<OpenFile>
  read(path: string, options?: FileUser & { offset?: number; length?: number }): AsyncIterable<Uint8Array>
  /** Readers see the old content or the new content, never a mixture. */
  write(
    path: string,
    data: ByteSource,
    options?: FileUser & { mode?: number; append?: boolean; parents?: boolean },
  ): Promise<FileStat>
  stat(path: string, options?: FileUser & { follow?: boolean }): Promise<FileStat>
  list(path: string, options?: FileUser & { depth?: number }): AsyncIterable<FileStat>
  mkdir(path: string, options?: FileUser & { parents?: boolean; mode?: number }): Promise<FileStat>
  move(paths: { from: string; to: string }, options?: FileUser & { overwrite?: boolean }): Promise<FileStat>
  remove(path: string, options?: FileUser & { recursive?: boolean }): Promise<void>
  /**
   * Follows changes of a file, in a directory, or in all directories below it. Ends when the path itself is deleted. A
   * move out of the watched path is `deleted`, a move into it `created`. Writes through a memory map are not seen.
   */
  watch(path: string, options?: FileUser & { recursive?: boolean }): AsyncIterable<FileChange>
}

/** The files of a snapshot. A relative path starts at the home of `user`, of root by default; root reads everything. */
export type SnapshotFiles = Pick<GuestFiles, 'open' | 'stat' | 'list'>

export interface ListeningPort {
  readonly port: number
  /** The address it is bound to: `0.0.0.0` or `::` for every address. */
  readonly address: string
}

/** TCP ports on the loopback inside. */
/** A connection of this process to a port inside. */
export interface PortConnection extends Duplex {
  /**
   * True: the caller closes it when the burrow ends. A snapshot does not, because the caller's `GateKeeper` parks it
   * with the connections of the gate. False by default.
   */
  outlives?: boolean
  /** Whether its end is out of the burrow. Nothing is lost meanwhile. The event `parked` says when that begins. */
  isParked?: boolean
}

export interface GuestPorts {
  /**
   * Connects to the process that listens there, at 127.0.0.1 before ::1. Each side can end its half alone, and waits
   * for the other to read. Throws `port_closed` when nothing listens. Ends with an error when the sandbox is saved,
   * unless it `outlives` that: this end is not in the snapshot. Aborting `signal` resets it at any time.
   */
  connect(port: number, options?: { signal?: AbortSignal }): Promise<PortConnection>
  /** Waits until a process listens, without connecting. Throws `port_closed` when none does in that time. */
  wait(port: number, options: { timeoutMs: number; signal?: AbortSignal }): Promise<ListeningPort>
  /** Sorted by port, then by address. */
  list(): Promise<readonly ListeningPort[]>
}
