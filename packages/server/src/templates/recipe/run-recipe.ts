import { createHash } from 'node:crypto'
import { posix } from 'node:path'
import { DormouseError, type SnapshotId } from '@dormouse/contracts'
import { runProcess, type StepOrigin, type StepParts, stepInSandbox } from '../run-step.ts'
import { expandWord } from './dockerfile-text.ts'
import type { Base, CacheMount, Command, Copy, Instruction, Recipe, RunSettings, Stage } from './recipe.ts'
import { DEFAULT_PATH, DEFAULT_SHELL, PLAIN_SETTINGS } from './recipe.ts'

/** What a stage starts from. */
export interface BaseFiles {
  readonly origin: StepOrigin
  /** Says all that the files depend on. */
  readonly key: string
  readonly settings: RunSettings
  /** Values of `ARG`. As with docker, a stage on another one has those of that stage. */
  readonly args?: Readonly<Record<string, string>>
}

/** Copies files into a sandbox of a build. */
export interface CopySource {
  /** Says all that the copied files depend on. */
  readonly key: string
  copyInto(parts: StepParts, into: CopyInto): Promise<void>
}

export interface CopyInto {
  readonly inside: InSandbox
  readonly copy: Copy
  readonly cwd: string
  readonly user: string
}

export type InSandbox = Parameters<Parameters<typeof stepInSandbox>[2]>[0]

export interface RecipeTools {
  readonly cache: {
    find(key: string): SnapshotId | undefined
    /** Drops what had this key before. */
    put(key: string, id: SnapshotId): Promise<void>
  }
  openBase(base: Exclude<Base, { type: 'stage' }>): Promise<BaseFiles>
  /** Throws `invalid_argument` when a source matches nothing. */
  fromContext(copy: Copy): Promise<CopySource>
  fromFiles(files: BaseFiles, copy: Copy): CopySource
  /** Names of volumes for cache mounts. */
  volumeFor(cacheId: string): Promise<string>
}

export interface BuiltFiles {
  readonly origin: StepOrigin
  readonly settings: RunSettings
}

/** A step that failed, with what a sandbox needs to start in the state before it. */
export class StepFailed extends Error {
  readonly before: BuiltFiles
  readonly shown: string

  constructor(shown: string, before: BuiltFiles, cause: unknown) {
    super(`${shown} failed`, { cause })
    this.shown = shown
    this.before = before
  }
}

/** Runs all stages that the last one needs, each step in a sandbox on the files of the step before. */
export async function runRecipe(parts: StepParts, recipe: Recipe, tools: RecipeTools): Promise<BuiltFiles> {
  const finished: BaseFiles[] = []
  const needed = neededStages(recipe)
  const total = recipe.stages.reduce((sum, stage, at) => sum + (needed.has(at) ? countSteps(stage) : 0), 0)
  const progress = { done: 0, total }
  for (const [at, stage] of recipe.stages.entries()) {
    if (!needed.has(at)) {
      finished.push({ origin: { template: '' }, key: '', settings: PLAIN_SETTINGS })
      continue
    }
    const base = stage.base.type === 'stage' ? finished[stage.base.stage] : await tools.openBase(stage.base)
    if (base === undefined)
      throw new DormouseError('internal', 'A stage was built before the one that it needs.')
    finished.push(await new StageRun({ parts, tools, finished, progress }, base).run(stage))
  }
  const last = finished.at(-1)
  if (last === undefined) throw new DormouseError('invalid_argument', 'There is nothing to build.')
  return last
}

function neededStages({ stages }: Recipe): Set<number> {
  const needed = new Set<number>()
  const visit = (at: number) => {
    const stage = stages[at]
    if (stage === undefined || needed.has(at)) return
    needed.add(at)
    const bases = [
      stage.base,
      ...stage.instructions.flatMap((step) => (step.type === 'copy' ? (step.from ?? []) : [])),
    ]
    for (const base of bases) if (base.type === 'stage') visit(base.stage)
  }
  visit(stages.length - 1)
  return needed
}

function countSteps({ instructions }: Stage): number {
  const runs = ({ type }: Instruction) => type === 'run' || type === 'copy'
  const makesDirectory = instructions.findLastIndex(({ type }) => type === 'workdir')
  const isStep = makesDirectory > instructions.findLastIndex(runs)
  return instructions.filter(runs).length + Number(isStep)
}

interface StageParts {
  readonly parts: StepParts
  readonly tools: RecipeTools
  readonly finished: readonly BaseFiles[]
  readonly progress: { done: number; readonly total: number }
}

class StageRun {
  readonly #stage: StageParts
  #origin: StepOrigin
  #key: string
  #settings: RunSettings
  readonly #args: Record<string, string>
  #isFresh = false
  /** Whether this stage has a CMD, rather than what it starts from. */
  #hasCommand = false
  /** Directories of WORKDIR. The next step that runs makes them. */
  #directories: string[] = []

  constructor(stage: StageParts, base: BaseFiles) {
    this.#stage = stage
    this.#origin = base.origin
    this.#key = base.key
    this.#settings = base.settings
    this.#args = { ...base.args }
  }

  async run({ instructions }: Stage): Promise<BaseFiles> {
    for (const instruction of instructions) await this.#take(instruction)
    if (this.#directories.length > 0)
      await this.#step({ shown: `WORKDIR ${this.#settings.cwd}`, key: [] }, async () => {})
    return { origin: this.#origin, key: this.#key, settings: this.#settings, args: this.#args }
  }

  async #take(instruction: Instruction): Promise<void> {
    switch (instruction.type) {
      case 'run':
        return this.#runCommand(instruction)
      case 'copy':
        return this.#copyFiles(instruction)
      case 'env': {
        // As docker: all values of one line see the variables from before it.
        const values = Object.entries(instruction.values).map(([name, value]) => [name, this.#expand(value)])
        return this.#set({ env: { ...this.#settings.env, ...Object.fromEntries(values) } })
      }
      case 'arg':
        if (instruction.value !== undefined) this.#args[instruction.name] = this.#expand(instruction.value)
        return
      case 'workdir': {
        const cwd = posix.resolve(this.#settings.cwd, this.#expand(instruction.path))
        this.#directories.push(cwd)
        return this.#set({ cwd })
      }
      case 'user':
        return this.#set({ user: this.#expand(instruction.user) })
      case 'entrypoint':
        return this.#set({
          entrypoint: this.#argsOf(instruction.command),
          // As docker: a new entrypoint makes the command of the base meaningless.
          ...(!this.#hasCommand && { cmd: [] }),
        })
      case 'cmd':
        this.#hasCommand = true
        return this.#set({ cmd: this.#argsOf(instruction.command) })
      case 'shell':
        return this.#set({ shell: instruction.args })
      case 'fresh':
        this.#isFresh = true
        return
      case 'healthcheck':
        return this.#set({ healthcheck: instruction.command && this.#argsOf(instruction.command) })
    }
  }

  #set(changed: Partial<RunSettings>): void {
    this.#settings = { ...this.#settings, ...changed }
  }

  #expand(word: string): string {
    return expandWord(word, this.#variables)
  }

  /** As docker: there is always a PATH, and what ENV sets comes before ARG. */
  get #variables(): Readonly<Record<string, string>> {
    return { PATH: DEFAULT_PATH, ...this.#args, ...this.#settings.env }
  }

  #argsOf(command: Command): readonly string[] {
    return 'args' in command ? command.args : [...(this.#settings.shell ?? DEFAULT_SHELL), command.script]
  }

  async #runCommand({ shown, command, ...given }: Instruction & { type: 'run' }): Promise<void> {
    const { cwd, user } = this.#settings
    const caches = given.caches.map((cache) => ({
      ...cache,
      id: this.#expand(cache.id),
      target: posix.resolve(cwd, this.#expand(cache.target)),
    }))
    const args = this.#argsOf(command)
    const variables = this.#variables
    const volumes = await Promise.all(
      caches.map(async ({ id, target }) => ({
        volume: await this.#stage.tools.volumeFor(id),
        path: target,
        readOnly: false,
      })),
    )
    const key = ['run', args, variables, cwd, user, caches]
    const { parts } = this.#stage
    await this.#step({ shown, key, volumes }, async (inside) => {
      for (const cache of caches) await ownCache(parts, inside, cache)
      await runProcess(parts, inside, { title: shown, args, env: variables, cwd, user })
    })
  }

  async #copyFiles({ shown, type: _type, ...given }: Instruction & { type: 'copy' }): Promise<void> {
    const { cwd, user } = this.#settings
    const copy: Copy = {
      ...given,
      sources: given.sources.map((source) => this.#expand(source)),
      to: this.#expand(given.to),
      ...(given.chown !== undefined && { chown: this.#expand(given.chown) }),
      ...(given.chmod !== undefined && { chmod: this.#expand(given.chmod) }),
    }
    if (copy.chmod !== undefined && !OCTAL.test(copy.chmod))
      throw new DormouseError('invalid_argument', `${shown}: --chmod must be an octal mode like 755.`)
    const source = await this.#openSource(copy).catch((error: unknown) => {
      throw new StepFailed(shown, this.#before(), error)
    })
    const key = [
      'copy',
      source.key,
      copy.sources,
      copy.to,
      copy.chown ?? '',
      copy.chmod ?? '',
      copy.unpacks,
      cwd,
    ]
    await this.#step({ shown, key }, (inside) =>
      source.copyInto(this.#stage.parts, { inside, copy, cwd, user }),
    )
  }

  #before(): BuiltFiles {
    return { origin: this.#origin, settings: this.#settings }
  }

  async #openSource(copy: Copy): Promise<CopySource> {
    const { tools, finished } = this.#stage
    if (copy.from === undefined) return tools.fromContext(copy)
    const files = copy.from.type === 'stage' ? finished[copy.from.stage] : await tools.openBase(copy.from)
    if (files === undefined) throw new DormouseError('invalid_argument', `There is no stage to copy from.`)
    return tools.fromFiles(files, copy)
  }

  async #step(
    { shown, key, volumes = [] }: { shown: string; key: readonly unknown[]; volumes?: StepOrigin['volumes'] },
    work: (inside: InSandbox) => Promise<void>,
  ): Promise<void> {
    const { parts, tools, progress } = this.#stage
    const { log } = parts
    const directories = this.#directories
    const next = createHash('sha256')
      .update(JSON.stringify([this.#key, directories, ...key]))
      .digest('hex')
    progress.done += 1
    log.say(`[${progress.done}/${progress.total}] ${shown}`)
    const began = performance.now()
    let files = this.#isFresh ? undefined : tools.cache.find(next)
    if (files === undefined) {
      const before = this.#before()
      files = await stepInSandbox(parts, { ...this.#origin, volumes }, async (inside) => {
        for (const path of directories) await makeDirectory(parts, inside, path)
        await work(inside)
      }).catch((error: unknown) => {
        throw new StepFailed(shown, before, error)
      })
      await tools.cache.put(next, files)
      log.say(`    done in ${((performance.now() - began) / 1000).toFixed(1)} s`)
    } else log.say('    cached')
    this.#directories = []
    this.#origin = { template: this.#origin.template, files }
    this.#key = next
  }
}

const OCTAL = /^[0-7]{3,4}$/
export const RUNTIME_PYTHON = '/.dormouse/runtime/bin/python3'
const MAKE_DIRECTORY = 'import os, sys; os.makedirs(sys.argv[1], exist_ok=True)'
const OWN_CACHE = `import os, sys
path, uid, gid, mode = sys.argv[1], *map(int, sys.argv[2:])
os.chown(path, uid, gid)
os.chmod(path, mode)`

async function makeDirectory(parts: StepParts, inside: InSandbox, path: string): Promise<void> {
  await runPython(parts, inside, `making ${path}`, [MAKE_DIRECTORY, path])
}

/** Gives the directory of a cache mount the owner and mode that the mount names. */
async function ownCache(parts: StepParts, inside: InSandbox, cache: CacheMount): Promise<void> {
  const { target, uid, gid, mode } = cache
  if ((uid ?? gid ?? mode) === undefined) return
  const numbers = [uid ?? 0, gid ?? 0, mode ?? 0o755].map(String)
  await runPython(parts, inside, `preparing the cache ${target}`, [OWN_CACHE, target, ...numbers])
}

async function runPython(
  parts: StepParts,
  inside: InSandbox,
  title: string,
  program: readonly string[],
): Promise<void> {
  const args = [RUNTIME_PYTHON, '-I', '-B', '-c', ...program]
  await runProcess(parts, inside, { title, args, env: {}, cwd: '/', user: 'root' })
}
