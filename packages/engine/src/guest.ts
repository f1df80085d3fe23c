import type { Duplex } from 'node:stream'
import type { ProcessEvent, RunEvent, RunId, RunResult } from '@dormouse/contracts'

/**
 * What can be done inside a burrow. All methods reject with a DormouseError; bad arguments with `invalid_argument`, and
 * nothing has changed then. An aborted `signal` ends the call, never the run or process it is about.
 */
export interface Guest {
  readonly runs: GuestRuns
  readonly contexts: GuestContexts
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
  /** Only events after this `seq`; -1 for all that are held. */
  readonly after?: number
  /** Wait for more until `exit`; otherwise end at the journal's present end. */
  readonly follow?: boolean
  readonly signal?: AbortSignal
}

export interface StartRun {
  readonly code: string
  readonly language?: 'python' | 'bash'
  readonly context?: string
  readonly timeoutMs?: number
  readonly runId?: RunId
}

export interface GuestRuns {
  /** Runs to the end and collects. Output beyond the limit is cut in the middle and counted in `truncated`. */
  run(request: StartRun, options?: { signal?: AbortSignal }): Promise<RunResult>
  /** Runs and yields events as they come. Leaving the loop does not end the run. */
  stream(request: StartRun, options?: { signal?: AbortSignal }): AsyncIterable<RunEvent>
  events(runId: string, options?: Follow): AsyncIterable<RunEvent>
  interrupt(runId: string): Promise<'interrupting' | 'cancelled' | 'finished'>
}

export interface CreateContext {
  readonly context: string
  readonly user?: string
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
}

export interface ContextInfo {
  readonly context: string
  readonly user: string
  readonly pid: number | null
  readonly state: 'starting' | 'idle' | 'busy' | 'dead'
  readonly restarts: number
}

export interface GuestContexts {
  create(request: CreateContext): Promise<ContextInfo>
  list(): Promise<readonly ContextInfo[]>
  delete(context: string): Promise<void>
  /** Imports modules in the context `default`, in this order, at most 64. Returns those that failed; why is in `output`. */
  preload(modules: readonly string[], options?: { signal?: AbortSignal }): Promise<readonly string[]>
  /** What was written between runs, by threads and children that outlive them. */
  output(context: string, options?: Follow): AsyncIterable<RunEvent>
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
  /** Such as `SIGKILL`, when one ended it. */
  readonly signal: string | undefined
}

/** A process whose input and output are this connection, byte for byte. Neither side can run ahead of the other. */
export interface ProcessConnection {
  readonly pid: number
  /**
   * What it writes, as it writes it; what is not taken makes it wait. Ends when it has ended and none of its children can write any
   * more. Fails when the sandbox is saved: this end is not in the snapshot. To be read once; leaving the loop lets go.
   */
  readonly output: AsyncIterable<ProcessOutput>
  /** Of a process whose output has been read to the end. */
  readonly exit: Promise<ProcessExit>
  /** Post: it is on its way, or (false) the connection is over. What a process does not read any more is thrown away. */
  write(data: Uint8Array): Promise<boolean>
  /** Of its input. A terminal gets Ctrl-D. */
  end(): void
  /** Lets go: its pipes are closed, its terminal is hung up; the process itself is left alone. */
  close(): void
}

export interface ProcessInfo {
  readonly pid: number
  readonly command: string
  readonly user: string
  readonly state: 'running' | 'exited'
  readonly exitCode?: number
  readonly startedAt: number
  readonly pty: boolean
}

export interface GuestProcesses {
  /** Starts in the background and returns its pid. */
  start(request: StartProcess): Promise<number>
  /** Starts and yields events. Leaving the loop does not end the process. */
  stream(request: StartProcess, options?: { signal?: AbortSignal }): AsyncIterable<ProcessEvent>
  events(pid: number, options?: Follow): AsyncIterable<ProcessEvent>
  /** Starts it. Its output is nowhere but in the connection. Aborting `signal` lets go of it at any time. */
  connect(request: ConnectProcess, options?: { signal?: AbortSignal }): Promise<ProcessConnection>
  list(): Promise<readonly ProcessInfo[]>
  /** Goes to the whole process group. */
  signal(pid: number, signal: string): Promise<void>
  /** Returns the bytes taken. Closes stdin afterwards unless `close` is false. Several writers at once take turns by the piece. */
  writeStdin(
    pid: number,
    data: ByteSource,
    options?: { close?: boolean; signal?: AbortSignal },
  ): Promise<number>
  resize(pid: number, size: { cols: number; rows: number }): Promise<void>
}

/** Bytes of any length: whole, or as they come. */
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
}

export interface FileUser {
  readonly user?: string
  readonly signal?: AbortSignal
}

/**
 * One change below a watched path. `ready` comes first: from then on nothing is missed without an `overflow`, which says that
 * changes in or below `path` were, so that it has to be looked at again.
 */
export type FileChange =
  | { readonly type: 'ready' | 'created' | 'modified' | 'deleted' | 'overflow'; readonly path: string }
  | { readonly type: 'moved'; readonly path: string; readonly from: string }

/** An open file: what it was when it was opened, and its bytes from there on. */
export interface OpenFile {
  readonly stat: FileStat
  /** To be read, or let go of by aborting the `signal` of the call. */
  readonly data: AsyncIterable<Uint8Array>
}

/** Paths are absolute, or relative to the user's home. */
export interface GuestFiles {
  open(path: string, options?: FileUser & { offset?: number; length?: number }): Promise<OpenFile>
  read(path: string, options?: FileUser & { offset?: number; length?: number }): AsyncIterable<Uint8Array>
  /** Readers see the old content or the new, never a mixture, whatever happens. */
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
   * Follows changes of a file, or in a directory, or in all below it. Ends when the path itself is gone.
   * A move out of sight is `deleted`, one into it `created`. What a program writes through a memory map is not seen.
   */
  watch(path: string, options?: FileUser & { recursive?: boolean }): AsyncIterable<FileChange>
}

export interface ListeningPort {
  readonly port: number
  /** What it is bound to: `0.0.0.0` or `::` for every address. */
  readonly address: string
}

/** TCP ports on the loopback inside. */
export interface GuestPorts {
  /**
   * A connection to what listens there, 127.0.0.1 before ::1. Each side can end its half alone; what neither side reads is not taken.
   * Throws `port_closed` when nothing listens. Ends with an error when the sandbox is saved: its other end is not in the snapshot.
   * Aborting `signal` resets it at any time.
   */
  connect(port: number, options?: { signal?: AbortSignal }): Promise<Duplex>
  /** Throws `port_closed` when nothing listens after that time. Looks, and does not connect. */
  wait(port: number, options: { timeoutMs: number; signal?: AbortSignal }): Promise<ListeningPort>
  /** By port, then address. */
  list(): Promise<readonly ListeningPort[]>
}
