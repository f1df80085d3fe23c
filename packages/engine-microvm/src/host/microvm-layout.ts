import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { BurrowId, SnapshotId } from '@dormouse/contracts'

/** Paths of this engine on this host. */
export class MicrovmLayout {
  readonly burrowsDir: string
  /** Names the burrows that no sandbox has yet. */
  readonly sparesDir: string
  readonly snapshotsDir: string
  /** Files that came with snapshots of other hosts, by their keys. Snapshots have links to them. */
  readonly arrivedDir: string
  /** The same as those of the engine for processes. */
  readonly volumesDir: string
  /** QEMU's guest kernel, root disks and booted templates, shared by all state directories of a host. */
  readonly kernelDir: string
  readonly disksDir: string
  readonly templatesDir: string
  readonly runDir: string
  /** Name of the parent of this engine's cgroups, below each hierarchy. */
  readonly cgroupName: string

  constructor(stateDir: string, dataDir: string) {
    const key = createHash('sha256').update(stateDir).digest('hex').slice(0, 12)
    this.burrowsDir = join(stateDir, 'microvm', 'burrows')
    this.sparesDir = join(stateDir, 'microvm', 'spares')
    this.snapshotsDir = join(stateDir, 'microvm', 'snapshots')
    this.arrivedDir = join(stateDir, 'microvm', 'arrived')
    this.volumesDir = join(stateDir, 'volumes')
    this.kernelDir = join(dataDir, 'microvm', 'kernel')
    this.disksDir = join(dataDir, 'microvm', 'disks')
    this.templatesDir = join(dataDir, 'microvm', 'templates')
    this.runDir = join('/run/dormouse-microvm', key)
    this.cgroupName = join('dormouse', `${key}-vm`)
  }

  burrow(id: BurrowId): MicrovmBurrowPaths {
    const dir = join(this.burrowsDir, id)
    const run = join(this.runDir, id)
    return {
      id,
      dir,
      record: join(dir, 'burrow.json'),
      saving: join(dir, 'saving.json'),
      spareMark: join(this.sparesDir, id),
      disk: join(dir, 'disk.qcow2'),
      disks: join(dir, 'disks'),
      memory: join(dir, 'memory'),
      map: join(dir, 'memory.map'),
      root: join(run, 'root'),
      run: join(run, 'run'),
      runParent: run,
      qmp: join(run, 'run', 'qmp.sock'),
      link: join(run, 'run', 'link.sock'),
      cgroup: join(this.cgroupName, id),
    }
  }

  snapshot(id: SnapshotId): SavedPaths {
    return savedPaths(join(this.snapshotsDir, id))
  }

  template(name: string): SavedPaths {
    return savedPaths(join(this.templatesDir, name))
  }
}

export interface MicrovmBurrowPaths {
  readonly id: BurrowId
  readonly dir: string
  readonly record: string
  /** Exists while the burrow is a spare: from before anything of it is made until a sandbox gets it. */
  readonly spareMark: string
  /** Exists while a snapshot of the burrow is being taken. */
  readonly saving: string
  /** What this burrow writes. */
  readonly disk: string
  /** Links to the disks below it, and to the memory files that QEMU maps. The last link frees a file. */
  readonly disks: string
  readonly memory: string
  /** Which memory file has which part of the guest's memory; missing in a burrow that booted. */
  readonly map: string
  /** An empty directory on which the jail mounts its root. */
  readonly root: string
  /** QEMU's sockets. */
  readonly run: string
  readonly runParent: string
  readonly qmp: string
  readonly link: string
  readonly cgroup: string
}

/** A snapshot, or a booted template, which is a snapshot without a sandbox. */
export interface SavedPaths {
  readonly dir: string
  readonly manifest: string
  readonly state: string
  readonly map: string
  /** Parts of memory files that the guest used last: a wake on another host fetches them first. A hint. */
  readonly touched: string
  readonly disks: string
  readonly memory: string
  /** What the guest has open on volumes: a file for each. */
  readonly volumes: string
}

export function savedPaths(dir: string): SavedPaths {
  return {
    dir,
    manifest: join(dir, 'manifest.json'),
    state: join(dir, 'state'),
    map: join(dir, 'memory.map'),
    touched: join(dir, 'touched'),
    disks: join(dir, 'disks'),
    memory: join(dir, 'memory'),
    volumes: join(dir, 'volumes'),
  }
}
