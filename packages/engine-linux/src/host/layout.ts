import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { BurrowId, LayerId, SnapshotId } from '@dormouse/contracts'

/** Paths of an engine on this host. */
export class Layout {
  readonly burrowsDir: string
  readonly sparesDir: string
  readonly layersDir: string
  /** Checksums of layers and of template builds, one file each. */
  readonly sumsDir: string
  readonly snapshotsDir: string
  /** Pulls of images that have not finished. */
  readonly pullsDir: string
  /** Which layer has the content of which image layer, one file each. */
  readonly imageLayersDir: string
  readonly volumesDir: string
  readonly runDir: string
  /** Name of the parent of this engine's cgroups, below each hierarchy. */
  readonly cgroupName: string
  /** An empty directory: every burrow mounts its root there, each in a mount namespace of its own. */
  readonly rootMountPoint: string

  /** Layers of template snapshots: shared by all state directories of a host, and never collected with a sandbox. */
  readonly templateLayersDir: string
  /** Builds of templates, by name and hash. */
  readonly templatesDir: string

  constructor(stateDir: string, dataDir: string) {
    // Engines with different state directories must not see each other's burrows.
    const key = createHash('sha256').update(stateDir).digest('hex').slice(0, 12)
    this.burrowsDir = join(stateDir, 'burrows')
    this.templateLayersDir = join(dataDir, 'template-layers')
    this.templatesDir = join(dataDir, 'templates')
    this.sparesDir = join(stateDir, 'spares')
    this.layersDir = join(stateDir, 'layers')
    this.sumsDir = join(stateDir, 'sums')
    this.snapshotsDir = join(stateDir, 'snapshots')
    this.pullsDir = join(stateDir, 'pulls')
    this.imageLayersDir = join(stateDir, 'image-layers')
    this.volumesDir = join(stateDir, 'volumes')
    this.runDir = join('/run/dormouse', key)
    this.cgroupName = join('dormouse', key)
    this.rootMountPoint = join(this.runDir, 'root')
  }

  layer(id: LayerId): string {
    const ofTemplate = join(this.templateLayersDir, id)
    return existsSync(ofTemplate) ? ofTemplate : join(this.layersDir, id)
  }

  snapshot(id: SnapshotId): SnapshotPaths {
    return snapshotPaths(join(this.snapshotsDir, id))
  }

  burrow(id: BurrowId): BurrowPaths {
    const dir = join(this.burrowsDir, id)
    const run = join(this.runDir, id)
    return {
      id,
      dir,
      record: join(dir, 'burrow.json'),
      saveIntent: join(dir, 'taking.json'),
      upper: join(dir, 'upper'),
      spareMark: join(this.sparesDir, id),
      work: join(dir, 'work'),
      memory: join(dir, 'memory'),
      unfolded: join(dir, 'unfolded'),
      touched: join(dir, 'touched'),
      run,
      pidFile: join(run, 'pid'),
      endFile: join(run, 'end'),
      limits: join(run, 'limits'),
      cgroup: join(this.cgroupName, id),
    }
  }
}

export interface SnapshotPaths {
  readonly dir: string
  readonly manifest: string
  readonly images: string
  readonly memory: string
  /** Lists files of the top layer that every restore copies into the upper directory of its burrow. Often missing. */
  readonly carried: string
  /** Which addresses the last wake of its processes touched, and the ranges of files that they show. Both are hints. */
  readonly touched: string
  readonly ahead: string
}

export interface BurrowPaths {
  readonly id: BurrowId
  readonly dir: string
  readonly record: string
  /** Exists while a snapshot of the burrow is being taken. */
  readonly saveIntent: string
  readonly upper: string
  /** Exists while the burrow is a spare: from before anything of it is made until a sandbox gets it. */
  readonly spareMark: string
  readonly work: string
  /** Links to the memory files that this burrow's processes map. */
  readonly memory: string
  /** Images that are made for its restore, and removed afterwards. */
  readonly unfolded: string
  /** Which addresses its processes touched soon after they woke. */
  readonly touched: string
  readonly run: string
  readonly pidFile: string
  readonly endFile: string
  /** The files that tell programs inside their limits. */
  readonly limits: string
  readonly cgroup: string
}

export function snapshotPaths(dir: string): SnapshotPaths {
  return {
    dir,
    manifest: join(dir, 'manifest.json'),
    images: join(dir, 'images'),
    memory: join(dir, 'memory'),
    carried: join(dir, 'carried'),
    touched: join(dir, 'touched'),
    ahead: join(dir, 'ahead'),
  }
}
