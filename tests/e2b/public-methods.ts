import { readFileSync } from 'node:fs'
import type { Client } from './e2b-server.ts'

/** Classes of the client whose methods a program calls. The methods of `SandboxApi` are those of `Sandbox`. */
const CLASSES = [
  'Sandbox',
  'SandboxApi',
  'Commands',
  'CommandHandle',
  'Pty',
  'Filesystem',
  'WatchHandle',
  'Git',
  'Volume',
  'Secret',
  'TemplateBase',
]

const TYPES = new URL('../packages/node_modules/e2b/dist/index.d.ts', import.meta.url)

/** `Class.method` for every public method that the types of the client declare, static or not. */
export function publicMethods(): Set<string> {
  const found = new Set<string>()
  const classes = readFileSync(TYPES, 'utf8').matchAll(/^declare class (\w+)[^\n]*\{\n(.*?)^\}/gms)
  for (const [, name = '', body = ''] of classes) {
    if (!CLASSES.includes(name)) continue
    for (const [, method = ''] of body.matchAll(/^ {2}(?:static )?(\w+)[(<]/gm))
      if (method !== 'constructor') found.add(`${name.replace('SandboxApi', 'Sandbox')}.${method}`)
  }
  return found
}

type Methods = Record<string, unknown>

/** Files that share a worker share the client, which keeps methods that were read once. So each is wrapped once. */
const wrappers = new WeakSet<object>()
let active: CallRecorder | undefined

/** Notes every call of a method of the client, until another recorder watches it. */
export class CallRecorder {
  readonly called = new Set<string>()

  /** The classes that the client exports. */
  watch({ Sandbox, Volume, Secret, Template, TemplateBase }: Client): void {
    active = this
    this.#wrap('Sandbox', Sandbox)
    this.#wrap('Volume', Volume)
    this.#wrap('Secret', Secret)
    this.#wrap('TemplateBase', TemplateBase)
    this.#wrapAll('TemplateBase', Template as unknown as Methods)
  }

  /** Classes that only instances lead to. */
  watchInstance(name: string, instance: object): void {
    this.#wrapAll(name, Object.getPrototypeOf(instance))
  }

  #wrap(name: string, made: unknown): void {
    // The statics and methods of base classes, too.
    for (
      let one = made as { prototype: object };
      one?.prototype !== undefined;
      one = Object.getPrototypeOf(one)
    ) {
      this.#wrapAll(name, one as unknown as Methods)
      this.#wrapAll(name, one.prototype as Methods)
      if (Object.getPrototypeOf(one) === Function.prototype) return
    }
  }

  #wrapAll(name: string, owner: Methods): void {
    for (const method of Object.getOwnPropertyNames(owner)) {
      const described = Object.getOwnPropertyDescriptor(owner, method)
      const original = described?.value
      if (method === 'constructor' || typeof original !== 'function' || described?.writable !== true) continue
      if (wrappers.has(original)) continue
      const wrapper = function (this: unknown, ...args: unknown[]) {
        active?.called.add(`${name}.${method}`)
        return original.apply(this, args)
      }
      wrappers.add(wrapper)
      owner[method] = wrapper
    }
  }
}
