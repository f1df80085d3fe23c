import type { z } from 'zod'
import type { HostFacts } from './host-facts.ts'
import { absolutePath } from './value-schemas.ts'

interface Description {
  /** The environment variable. Settings without one can only be set in the file. */
  readonly env?: string
  /** The flag of `dormouse up`. */
  readonly flag?: string
  /** The placeholder behind the flag in help texts. */
  readonly argument?: string
  /** One sentence. `dormouse up --help` shows it. */
  readonly summary: string
  /** More sentences, for docs/configuration.md. */
  readonly details?: string
  /** Describes a default that depends on the host. */
  readonly defaultText?: string
}

type Default<Value> = Value | ((host: HostFacts) => Value)

/**
 * One setting: how it is checked, what it is without being set, and where it can be set. Its name is its place in the
 * tree.
 */
export class Setting<Schema extends z.ZodType = z.ZodType, Value = unknown> {
  readonly schema: Schema
  readonly description: Description
  readonly #default: Default<Value>

  constructor(schema: Schema, defaultValue: Default<Value>, description: Description) {
    this.schema = schema
    this.#default = defaultValue
    this.description = description
  }

  defaultFor(host: HostFacts): Value {
    const value = this.#default
    return value instanceof Function ? value(host) : value
  }

  /** How text from a flag or a variable becomes a value. */
  get kind(): 'text' | 'file' | 'number' | 'boolean' | 'list' {
    if (this.schema === (absolutePath as z.ZodType)) return 'file'
    const { type } = this.schema.def
    if (type === 'array') return 'list'
    return type === 'number' || type === 'boolean' ? type : 'text'
  }
}

/** A setting with a default. */
export function setting<Schema extends z.ZodType>(
  schema: Schema,
  defaultValue: Default<z.output<Schema>>,
  description: Description,
): Setting<Schema, z.output<Schema>> {
  return new Setting(schema, defaultValue, description)
}

/** A setting that may stay undefined. */
export function optional<Schema extends z.ZodType>(
  schema: Schema,
  description: Description,
): Setting<Schema, z.output<Schema> | undefined> {
  return new Setting<Schema, z.output<Schema> | undefined>(schema, undefined, description)
}

/** Settings by name; related ones are in a group, which is an object in `config.json`. */
export type SettingTree = { readonly [name: string]: Setting | { readonly [name: string]: Setting } }

/** What the tree yields when every setting has its value. */
export type ValuesOf<Tree> = {
  readonly [Name in keyof Tree]: Tree[Name] extends Setting<z.ZodType, infer Value>
    ? ReadonlyValue<Value>
    : ValuesOf<Tree[Name]>
}

/** What `config.json` may say: any part of the tree. */
export type InputOf<Tree> = {
  [Name in keyof Tree]?: Tree[Name] extends Setting<infer Schema, unknown>
    ? z.output<Schema>
    : InputOf<Tree[Name]>
}

type ReadonlyValue<Value> = Value extends readonly (infer Item)[] ? readonly Item[] : Value

export interface NamedSetting {
  readonly path: readonly [string] | readonly [string, string]
  readonly setting: Setting
}

/** All settings of a tree, each with its place. */
export function listSettings(tree: SettingTree): NamedSetting[] {
  return Object.entries(tree).flatMap(([name, node]): NamedSetting[] =>
    node instanceof Setting
      ? [{ path: [name], setting: node }]
      : Object.entries(node).map(([inner, setting]) => ({ path: [name, inner], setting })),
  )
}
