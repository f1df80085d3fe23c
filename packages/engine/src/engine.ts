import type {
  BurrowId,
  BurrowLimits,
  BurrowLimitsInput,
  SandboxId,
  SnapshotId,
  VolumeId,
} from '@dormouse/contracts'
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
   * Post: the snapshot is on disk and immutable. On failure the burrow runs on as if nothing had been (who handles SIGCONT may get it), and
   * the error (`snapshot_refused`, `no_space`) says why, with the pid where one process is to blame. Only `restore_failed` with `snapshotId` in its
   * details is no refusal: all is saved there, the burrow is over, and something went wrong afterwards; `fork` throws it too.
   */
  snapshot(burrow: Burrow, options: SnapshotOptions): Promise<{ snapshot: Snapshot; burrow?: Burrow }>
  /**
   * Starts a burrow from a snapshot; any number of times, also at once, also after a reboot.
   * Pre: it can run here (`snapshot_unusable` says why not, before anything starts). The snapshot is not changed.
   */
  restore(snapshotId: SnapshotId, options: RestoreOptions): Promise<Burrow>
  /**
   * One snapshot, a child for each id, and the parent going on from it too. Children and parent differ in nothing but identity
   * and, unless asked otherwise, random numbers. On failure no child is left and the parent goes on.
   */
  fork(
    burrow: Burrow,
    options: ForkOptions,
  ): Promise<{ snapshot: Snapshot; parent: Burrow; children: readonly Burrow[] }>
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
  /** What it takes on disk; undefined when that takes longer than a caller should wait, or than `timeoutMs`. Throws `not_found`. */
  measureVolume(volumeId: VolumeId, options?: { readonly timeoutMs?: number }): Promise<number | undefined>
  /** What all snapshots take on disk. Reads the disk: for now and then. */
  storage(): Promise<StorageReport>
  /**
   * Reads all of a snapshot's memory and images, and looks whether its files are all there. Throws `snapshot_unusable` with the reason when
   * it could not be restored here.
   */
  verifySnapshot(snapshotId: SnapshotId): Promise<void>
  /** What was written in this burrow and in those before it, on disk. Reads the disk: for now and then. */
  writtenBytes(burrow: Burrow): Promise<number>
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

export interface StorageReport {
  /** Every byte once. */
  readonly totalBytes: number
  /** What several share is divided among them: the sum is the total. */
  readonly snapshots: ReadonlyMap<SnapshotId, number>
}

/** Begins a restore for this sandbox when its turn has come: whoever knows about all restores on a host says when. */
export type Admit = <Value>(sandboxId: SandboxId, restore: () => Promise<Value>) => Promise<Value>

export interface SnapshotOptions {
  readonly leave: 'running' | 'frozen' | 'gone'
  /** `full` unless said otherwise. */
  readonly kind?: 'full' | 'files'
  /** Asked before the sandbox goes on. A refusal leaves it saved and asleep. */
  readonly admit?: Admit
}

export interface RestoreOptions {
  readonly sandboxId: SandboxId
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
  /** What hooks inside are told. */
  readonly reason?: 'resume' | 'fork' | 'rollback'
  /** Give random generators a new seed; true unless said otherwise. */
  readonly reseed?: boolean
  readonly signal?: AbortSignal
}

export interface ForkOptions {
  readonly sandboxIds: readonly SandboxId[]
  /** Called as soon as the parent goes on, before the children are there. It goes on also when they fail. */
  readonly onParent?: (parent: { readonly burrow: Burrow; readonly snapshot: Snapshot }) => void
  /** Asked for the parent and for every child. */
  readonly admit?: Admit
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
