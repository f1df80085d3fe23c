import { readFileSync } from 'node:fs'
import { DormouseError } from 'dormouse'
import { type Language, type Ran, Refused, type State, type Surface, type Tier } from './surface.ts'

type Doing =
  | { readonly do: 'create'; readonly as: string; readonly template?: string }
  | {
      readonly do: 'run' | 'stream'
      readonly in: string
      readonly code: string
      readonly language?: Language
    }
  | { readonly do: 'standby'; readonly in: string; readonly tier: Tier }
  | { readonly do: 'resume' | 'delete'; readonly in: string }
  | { readonly do: 'fork'; readonly in: string; readonly as: readonly string[] }
  | { readonly do: 'write'; readonly in: string; readonly path: string; readonly content: string }
  | { readonly do: 'read' | 'list'; readonly in: string; readonly path: string }

export type Step = Doing & { readonly expect: object }

export function readScenario(name: string): readonly Step[] {
  return JSON.parse(readFileSync(new URL(name, import.meta.url), 'utf8')).steps
}

/**
 * Does the steps one after the other. Outcomes have no ids and no times, so that those of two surfaces can be
 * compared.
 */
export class Player {
  readonly #surface: Surface
  readonly #ids = new Map<string, string>()

  constructor(surface: Surface) {
    this.#surface = surface
  }

  async play(step: Step): Promise<object> {
    try {
      return await this.#act(step)
    } catch (error) {
      if (error instanceof DormouseError || error instanceof Refused) return { refused: error.code }
      throw error
    }
  }

  async #act(step: Step): Promise<object> {
    const surface = this.#surface
    if (step.do === 'create') {
      const created = await surface.create(step.template)
      this.#ids.set(step.as, created.id)
      return stateOf(created)
    }
    const id = this.#ids.get(step.in) ?? step.in
    switch (step.do) {
      case 'run':
        return ranOf(await surface.run(id, step.code, step.language))
      case 'stream':
        return streamed((see) => surface.stream(id, step.code, see, step.language))
      case 'standby':
        return stateOf(await surface.standby(id, step.tier))
      case 'resume':
        return stateOf(await surface.resume(id))
      case 'fork': {
        const children = await surface.fork(id, step.as.length)
        for (const [index, name] of step.as.entries()) this.#ids.set(name, children[index] ?? '')
        return { count: new Set(children).size }
      }
      case 'write':
        await surface.write(id, step.path, step.content)
        return {}
      case 'read':
        return { content: await surface.read(id, step.path) }
      case 'list':
        return { names: [...(await surface.list(id, step.path))].sort() }
      case 'delete':
        await surface.delete(id)
        return {}
    }
  }
}

function stateOf({ state, tier }: State): object {
  return tier == null ? { state } : { state, tier }
}

function ranOf({ stdout, stderr, exitCode, text, error }: Ran): object {
  return {
    ...{ stdout, stderr, exitCode },
    ...(text != null && { text }),
    ...(error != null && { error: { name: error.name, message: error.message } }),
  }
}

/** Output is live when the first of it is there well before the end; the run continues for two seconds after it. */
const LIVE_MS = 1_000

async function streamed(run: (see: (output: string) => void) => Promise<void>): Promise<object> {
  let output = ''
  let firstAt: number | undefined
  await run((piece) => {
    firstAt ??= performance.now()
    output += `${piece}\n`
  })
  const lines = output.split('\n').filter((line) => line !== '')
  return { lines, isLive: firstAt !== undefined && performance.now() - firstAt > LIVE_MS }
}
