import type {
  BurrowId,
  BurrowLimits,
  BurrowLimitsInput,
  SandboxId,
  SnapshotId,
  VolumeId,
} from '@dormouse/contracts'
import type { EngineFailureKind } from './engine-log.ts'
import type { Guest } from './guest.ts'

/** What an engine can do on this host. Callers branch on these, never on an engine's name. */
export interface EngineCapabilities {
  /** Snapshots, restore, fork and rollback work here. */
  readonly snapshot: boolean
  /** Burrows outlive the process that made them and can be adopted by the next one. */
  readonly adopt: boolean
  /** Limits are enforced for these resources. */
  readonly limits: { readonly memory: boolean; readonly cpu: boolean; readonly pids: boolean }
  /** Burrows have gates; without them nothing goes out. */
  readonly network: boolean
}

/**
 * The only way out of a burrow: a socket inside it that belongs to this process. Both descriptors belong to whoever opens the gate, who
 * closes them too, also when the burrow has ended: `net.Server.listen({ fd })`, `dgram.Socket.bind({ fd })`.
 */
export interface Gate {
  /**
   * Listens. Every connection that is made inside to an address that is not the burrow's own arrives here; the local address of what is
   * accepted is the one that was asked for. Where the host has IPv6 an IPv4 address looks like `::ffff:192.0.2.1`.
   */
  readonly tcp: number
  /** Datagrams that are sent to the resolver inside, 198.18.0.1 port 53. */
  readonly dns: number
  /** Post: nothing arrives any more; who tries is refused. What was accepted goes on. Again is fine. */
  close(): void
}

export interface CreateBurrow {
  readonly sandboxId: SandboxId
  /** Name of a template; `python` exists always. */
  readonly template: string
  readonly limits?: BurrowLimitsInput
  /** Who runs code when a call does not say: a user of the template, `root` by default. */
  readonly user?: string
  /** Added to the environment of everything that starts inside. */
  readonly env?: Readonly<Record<string, string>>
  readonly volumes?: readonly VolumeMount[]
}

/** A directory that outlives burrows, and where one sees it. Any number of burrows may see the same one. */
export interface VolumeMount {
  readonly volumeId: VolumeId
  /** An absolute path inside, see `mountPathProblem`; directories that are missing on the way are made. */
  readonly path: string
  readonly readOnly: boolean
}

/** Why a burrow is no more. */
export type BurrowEnd =
  | { readonly reason: 'destroyed' }
  /** It was saved; the snapshot is on disk. */
  | { readonly reason: 'stored'; readonly snapshotId: SnapshotId }
  /** The agent ended by itself: `exitCode`, or the number of the `signal`. */
  | { readonly reason: 'agent_ended'; readonly exitCode?: number; readonly signal?: number }
  /** Somebody ended the whole tree from outside, or the host ran out of memory. */
  | { readonly reason: 'killed' }

export interface BurrowUsage {
  readonly memoryBytes: number
  readonly memoryPeakBytes: number
  readonly cpuMs: number
  readonly pids: number
  /** How often the kernel ended a process inside for want of memory. */
  readonly oomKills: number
}

/** How much of what its processes have in memory is theirs alone. */
export interface BurrowMemory {
  /** What it made itself and nobody else has: it goes when the burrow goes. */
  readonly privateBytes: number
  /**
   * Pages of files that are mapped: programs, and the memory of the snapshot that it came from, as long as it has not changed it. Its siblings
   * map the same ones. What several of its processes map is in here several times.
   */
  readonly sharedBytes: number
  /** Its part when every page is divided among all on the host that map it. */
  readonly proportionalBytes: number
}

/** The live thing: namespaces, cgroup, mounts and the process tree. */
export interface Burrow extends AsyncDisposable {
  readonly id: BurrowId
  readonly sandboxId: SandboxId
  readonly template: string
  readonly limits: BurrowLimits
  readonly createdAt: Date
  /** Talks to the agent inside. Its calls fail with `burrow_ended` once `ended` has settled. */
  readonly guest: Guest
  /** Settles when the last process is gone; never rejects. */
  readonly ended: Promise<BurrowEnd>

  /** Post: the new limits hold and `limits` shows them; or they are refused and the old ones hold. */
  setLimits(limits: BurrowLimitsInput): Promise<void>
  /** Post: everything that is started inside from now on has these, and live Python contexts have them in their next run. Others stay. */
  addEnv(env: Readonly<Record<string, string>>): Promise<void>
  usage(): Promise<BurrowUsage>
  /** Bytes that its processes have written to disks so far, roughly: to compare with itself a moment later. Costs little. */
  writtenSoFar(): Promise<number>
  /** Looks at every page, tens of milliseconds for a gigabyte: for now and then. undefined when it has ended, or it would take too long. */
  memory(): Promise<BurrowMemory | undefined>
  /**
   * Post: nothing inside runs, and nothing inside is told: no signal, no news of a child. A call that the kernel does not restart may return
   * EINTR. Memory stays. Again is fine.
   */
  freeze(): Promise<void>
  /** Post: everything goes on. Again is fine. */
  thaw(): Promise<void>
  /**
   * Opens the way out, which no burrow has by itself: not when it is new, restored or adopted.
   * Pre: `capabilities.network` (`host_unsupported`), no other gate of it is open (`conflict`), nobody inside has taken the resolver's
   * port (`in_use`). A process that goes on from a snapshot finds its connections to the outside ended.
   */
  openGate(): Promise<Gate>
  /**
   * Ends every process and removes everything of the burrow: mounts, cgroups, files.
   * Post: nothing of it is left on the host. Calling it again is fine.
   */
  destroy(): Promise<void>
  /** Lets go of the burrow without touching it: it lives on and can be adopted. */
  release(): void
}

export interface Engine extends AsyncDisposable {
  readonly name: string
  readonly capabilities: EngineCapabilities
  /** How often background work has failed since the engine was opened. */
  readonly failures: ReadonlyMap<EngineFailureKind, number>

  /**
   * Pre: the template exists (`template_not_found`), limits and env are within bounds (`invalid_argument`), the volumes exist (`not_found`),
   * their paths do not overlap and hide nothing that the template's processes have open (`invalid_argument`).
   * Post: the agent answers. On failure or abort nothing of the burrow is left.
   */
  createBurrow(request: CreateBurrow, signal?: AbortSignal): Promise<Burrow>
  /**
   * Saves a burrow. It ends; `leave` says whether a new one goes on from the snapshot: `running`, `frozen`, or not at all.
   * With `kind: 'files'` processes and memory are not saved, and nothing that they do can make it fail: the burrow itself goes
   * on, held still meanwhile, or ends when `leave` is `gone`; one that has ended by itself can be saved that way too.
   * Post: the snapshot is on disk and immutable. An error means that nothing was saved: the burrow continues as before (a process that
   * handles SIGCONT may get it), and the error (`snapshot_refused`, `no_space`) says why, with the pid where one process is to blame.
   * A failure after the snapshot is on disk is no error but `SavedBurrow.resumeError`.
   */
  snapshot(burrow: Burrow, options: SnapshotOptions): Promise<SavedBurrow>
  /**
   * Starts a burrow from a snapshot; any number of times, also at once, also after a reboot.
   * Pre: it can run here and its manifest names the sandbox `options.of` (`snapshot_unusable` says why not, before anything starts).
   * The snapshot is not changed.
   */
  restore(snapshotId: SnapshotId, options: RestoreOptions): Promise<Burrow>
  /**
   * Takes one snapshot and continues from it in the parent and in a child for each id. Children and parent differ in nothing but
   * identity and, unless asked otherwise, random numbers. On an error no child is left and the parent continues, here or in the burrow
   * that `onParent` was given. A parent that is saved and cannot continue is no error but `ForkedBurrow.resumeError`.
   */
  fork(burrow: Burrow, options: ForkOptions): Promise<ForkedBurrow>
  /** Ends a burrow and goes on from an older state of it. Pre: the snapshot is usable; it is checked before anything ends. */
  rollback(burrow: Burrow, snapshotId: SnapshotId): Promise<Burrow>
  /** Those that this engine understands; one that is damaged or of another format is not among them, but keeps all it refers to. */
  listSnapshots(): Promise<readonly Snapshot[]>
  /** Throws `not_found`, or `snapshot_unusable` when it cannot be read. */
  getSnapshot(snapshotId: SnapshotId): Promise<Snapshot>
  /** An empty directory. Throws `already_exists`. */
  createVolume(volumeId: VolumeId): Promise<void>
  /** Removes what is in it, too. Pre: no burrow mounts it (`in_use`). One that is not there is fine. */
  deleteVolume(volumeId: VolumeId): Promise<void>
  listVolumes(): Promise<readonly VolumeId[]>
  /** Measures what it takes on disk, in turns. Throws `not_found`. */
  measureVolume(volumeId: VolumeId, stopAt?: StopAt): Promise<Measurement>
  /** What all snapshots take on disk. Reads the disk: for now and then. */
  storage(): Promise<StorageReport>
  /**
   * What is stored, in parts that are checked one by one; each is there once, however many snapshots share it. Of one snapshot
   * (`not_found`), or of all of them and of the templates.
   */
  listParts(snapshotId?: SnapshotId): Promise<readonly StoredPart[]>
  /**
   * Reads a part from the disk, past what is in memory, and compares it with what it was when it was made. Files of sandboxes are
   * compared with what they were when they were first looked at, soon after a sleep. One that went meanwhile looks damaged.
   */
  checkPart(part: StoredPart, options: CheckPartOptions): Promise<PartCheck>
  /**
   * Reads all of a snapshot: its memory, its images, its files. The root file system of its template is not read. Throws `snapshot_unusable` with the reason when
   * it could not be restored here.
   */
  verifySnapshot(snapshotId: SnapshotId): Promise<void>
  /** Measures what was written in this burrow and in those before it, in turns. */
  measureWritten(burrow: Burrow, stopAt?: StopAt): Measurement
  /** Frees what nobody else refers to; also of one that is damaged. Throws `not_found`. */
  deleteSnapshot(snapshotId: SnapshotId): Promise<void>
  /**
   * Takes over the burrows that an earlier process left running, and removes what is left of those that have ended.
   * Pre: no other process uses this engine's data directory, and this one holds no burrow.
   */
  adoptBurrows(): Promise<AdoptedBurrows>
  /** Lets go of all burrows (they live on, see `Burrow.release`). */
  [Symbol.asyncDispose](): Promise<void>
}

/** What has become of a burrow that was saved. */
export interface SavedBurrow {
  readonly snapshot: Snapshot
  /** The burrow that continues. Absent when none does: `leave` was `gone`, or `resumeError` says why. */
  readonly burrow?: Burrow
  /** Why the sandbox is not as `leave` asked. All of it is in the snapshot, and the saved burrow has ended. */
  readonly resumeError?: unknown
}

export interface ForkedBurrow {
  readonly snapshot: Snapshot
  /** The burrow in which the parent continues. Absent when `resumeError` says why it does not. */
  readonly parent?: Burrow
  /** In the order of `sandboxIds`. None when the parent does not continue. */
  readonly children: readonly Burrow[]
  /** Why the parent did not continue. All of it is in the snapshot, and the saved burrow has ended. */
  readonly resumeError?: unknown
}

export interface Snapshot {
  readonly id: SnapshotId
  readonly sandboxId: SandboxId
  /** `full` is files, memory and processes. What is restored from `files` boots. */
  readonly kind: 'full' | 'files'
  /** The snapshot that the saved burrow had been restored from. */
  readonly parent?: SnapshotId
  readonly template: string
  readonly createdAt: Date
  readonly limits: BurrowLimits
  /** Mounted again in what is restored from it, unless others are given. Their content is not part of it. */
  readonly volumes: readonly VolumeMount[]
  /** What it takes on disk; memory files may be shared with other snapshots. */
  readonly bytes: { readonly images: number; readonly memory: number }
}

/** What a directory tree takes on disk. */
export interface DiskUse {
  readonly bytes: number
  /** Names: files, directories and links. */
  readonly files: number
  /** False: counting ended as soon as a limit was passed, and there may be more. */
  readonly isWhole: boolean
}

/** A measurement ends as soon as it has found more than this: so it takes no longer than that much can take. */
export interface StopAt {
  readonly bytes?: number
  readonly files?: number
}

/**
 * A measurement that goes on in turns, because it may take minutes. Between turns it stands still and costs nothing but a little memory. Dispose of
 * it in the end.
 */
export interface Measurement extends Disposable {
  /** Goes on for at most this long. Undefined: it has not come to its end. */
  advance(ms: number): Promise<DiskUse | undefined>
}

export interface StorageReport {
  /** Every byte once. */
  readonly totalBytes: number
  /** What several share is divided among them: the sum is the total. */
  readonly snapshots: ReadonlyMap<SnapshotId, number>
}

export interface StoredPart {
  /** The same for as long as it is the same part. */
  readonly key: string
  readonly kind: 'images' | 'memory' | 'layer' | 'template'
  /** Those that are damaged when this is. */
  readonly snapshots: readonly SnapshotId[]
  /** Names of templates that are damaged when this is. */
  readonly templates: readonly string[]
}

export interface CheckPartOptions {
  /** At most this much is read, at idle priority. Undefined: as fast as the disk allows. */
  readonly bytesPerSecond?: number | undefined
  readonly signal?: AbortSignal | undefined
}

export interface PartCheck {
  readonly readBytes: number
  /** In words; not there when it is whole. */
  readonly damage?: string
}

/** Runs `restore` when the caller's limiter has room for one more restore on this host. */
export type LimitRestore = <Value>(sandboxId: SandboxId, restore: () => Promise<Value>) => Promise<Value>

export interface SnapshotOptions {
  readonly leave: 'running' | 'frozen' | 'gone'
  /** `full` unless said otherwise. */
  readonly kind?: 'full' | 'files'
  /** Limits the restore that continues the sandbox. When it refuses, the sandbox stays saved and asleep. */
  readonly limitRestore?: LimitRestore
}

export interface RestoreOptions {
  readonly sandboxId: SandboxId
  /** The sandbox that the snapshot must have been taken of; without it, any. */
  readonly of?: SandboxId | undefined
  readonly limits?: BurrowLimitsInput
  /**
   * Instead of those of the snapshot. What its processes had open on a volume is opened again by its path; what is not there any more is to
   * them like a file that was deleted while they had it open.
   */
  readonly volumes?: readonly VolumeMount[]
  /** As in `CreateBurrow`, for snapshots of kind `files`; others remember. */
  readonly user?: string | undefined
  /** As in `CreateBurrow`; added to what a snapshot remembers. */
  readonly env?: Readonly<Record<string, string>> | undefined
  /**
   * What hooks inside are told. `create` is for a snapshot that a template was prepared as, in which no process of a user has run: burrows
   * of it may be restored ahead of need, as those of a template are.
   */
  readonly reason?: 'create' | 'resume' | 'fork' | 'rollback'
  /** Give random generators a new seed; true unless said otherwise. */
  readonly reseed?: boolean
  readonly signal?: AbortSignal
}

export interface ForkOptions {
  readonly sandboxIds: readonly SandboxId[]
  /** Called as soon as the parent goes on, before the children are there. It goes on also when they fail. */
  readonly onParent?: (parent: { readonly burrow: Burrow; readonly snapshot: Snapshot }) => void
  /** Limits the restore of the parent and of every child. */
  readonly limitRestore?: LimitRestore
  readonly reseed?: boolean
  readonly signal?: AbortSignal
}

export interface LostBurrow {
  readonly id: BurrowId
  readonly sandboxId: SandboxId
  readonly end: BurrowEnd
  /** Its files, saved before it was removed. Not there when it was stored, or when there was no room: then it is lost again next time. */
  readonly filesSnapshotId?: SnapshotId
}

export interface AdoptedBurrows {
  readonly burrows: readonly Burrow[]
  /** Burrows that were on record but are gone; their sandboxes have to be told. */
  readonly lost: readonly LostBurrow[]
}
