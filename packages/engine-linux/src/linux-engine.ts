import { mkdir, realpath } from 'node:fs/promises'
import {
  burrowLimitsSchema,
  DormouseError,
  ENV_MAX_BYTES,
  ENV_MAX_ENTRIES,
  isSandboxId,
  parseInput,
  type SandboxId,
} from '@dormouse/contracts'
import type { AdoptedBurrows, Burrow, CreateBurrow, Engine, EngineCapabilities } from '@dormouse/engine'
import { z } from 'zod'
import { adoptBurrows } from './burrow/adopt-burrows.ts'
import { bootBurrow } from './burrow/boot-burrow.ts'
import { Layout } from './burrow/layout.ts'
import type { LinuxBurrow } from './burrow/linux-burrow.ts'
import { findHierarchies, type Hierarchies } from './cgroup/find-hierarchies.ts'
import { prepareGuestTools } from './guest-tools.ts'
import { getTemplate } from './template/template-store.ts'

export interface LinuxEngineOptions {
  /** Templates and tools. */
  readonly dataDir: string
  /** Burrows; the data directory when not given. Tests share the templates of a host but not its burrows. */
  readonly stateDir?: string
}

const envSchema = z
  .record(
    z.string().regex(/^[^=\0]+$/, 'must be a name without = and NUL'),
    z.string().regex(/^[^\0]*$/, 'must not contain NUL'),
  )
  .refine((env) => Object.keys(env).length <= ENV_MAX_ENTRIES, `has more than ${ENV_MAX_ENTRIES} entries`)
  .refine((env) => JSON.stringify(env).length <= ENV_MAX_BYTES, `is longer than ${ENV_MAX_BYTES} bytes`)

const createSchema = z.strictObject({
  sandboxId: z.custom<SandboxId>(
    (value) => typeof value === 'string' && isSandboxId(value),
    'is not a sandbox id',
  ),
  template: z.string(),
  limits: burrowLimitsSchema.prefault({}),
  user: z
    .string()
    .regex(/^[a-z_][a-z0-9_-]{0,31}$/, 'is not a user name')
    .optional(),
  env: envSchema.optional(),
})

/** Burrows from namespaces, cgroups and overlayfs on this host. */
export class LinuxEngine implements Engine {
  readonly name = 'linux'
  readonly capabilities: EngineCapabilities
  readonly #dataDir: string
  readonly #layout: Layout
  readonly #hierarchies: Hierarchies
  readonly #toolsDir: string
  readonly #burrows = new Set<LinuxBurrow>()

  private constructor(parts: {
    dataDir: string
    layout: Layout
    hierarchies: Hierarchies
    toolsDir: string
  }) {
    this.#dataDir = parts.dataDir
    this.#layout = parts.layout
    this.#hierarchies = parts.hierarchies
    this.#toolsDir = parts.toolsDir
    const { v1, v2 } = parts.hierarchies
    const has = (name: 'memory' | 'cpu' | 'pids') => v1.has(name) || v2?.controllers.has(name) === true
    this.capabilities = { adopt: true, limits: { memory: has('memory'), cpu: has('cpu'), pids: has('pids') } }
  }

  /** Prepares what is the same for every burrow, so that creating one does none of it. */
  static async open({ dataDir, stateDir = dataDir }: LinuxEngineOptions): Promise<LinuxEngine> {
    const hierarchies = await findHierarchies()
    await mkdir(stateDir, { recursive: true, mode: 0o711 })
    const layout = new Layout(await realpath(stateDir))
    await mkdir(layout.burrowsDir, { recursive: true, mode: 0o700 })
    await mkdir(layout.rootMountPoint, { recursive: true, mode: 0o700 })
    const toolsDir = await prepareGuestTools(dataDir)
    return new LinuxEngine({ dataDir, layout, hierarchies, toolsDir })
  }

  async createBurrow(input: CreateBurrow, signal?: AbortSignal): Promise<Burrow> {
    const { user, env, limits, ...request } = parseInput(createSchema, input, 'burrow')
    const template = await getTemplate(this.#dataDir, request.template)
    const missing = (['memory', 'cpu', 'pids'] as const).filter((name) => !this.capabilities.limits[name])
    if (missing.length > 0) {
      throw new DormouseError(
        'host_unsupported',
        `This host has no cgroup controller for ${missing.join(', ')}.`,
      )
    }
    const burrow = await bootBurrow(
      { layout: this.#layout, hierarchies: this.#hierarchies },
      {
        request: { ...request, ...(user !== undefined && { user }), ...(env !== undefined && { env }) },
        limits,
        template,
        toolsDir: this.#toolsDir,
      },
      signal,
    )
    return this.#hold(burrow)
  }

  async adoptBurrows(): Promise<AdoptedBurrows> {
    const { burrows, lost } = await adoptBurrows(this.#layout, this.#hierarchies)
    for (const burrow of burrows) this.#hold(burrow)
    return { burrows, lost }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const burrow of this.#burrows) burrow.release()
    this.#burrows.clear()
  }

  #hold(burrow: LinuxBurrow): LinuxBurrow {
    this.#burrows.add(burrow)
    void burrow.ended.then(() => this.#burrows.delete(burrow))
    return burrow
  }
}
