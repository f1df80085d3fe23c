import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ErrorCode } from '@dormouse/contracts'
import { sandboxRefField } from '@dormouse/contracts/http'
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { AuthenticatedKey, Scope } from '../access/access.ts'
import type { Services } from './services.ts'

/** What a route file gets: a scope of its own, so that a content type parser that it adds is for its routes only. */
export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ZodTypeProvider
>

export type Routes = (app: App, services: Services) => void

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Which keys may call it. `open`: anybody. A route without one does not start. */
    scope?: Scope | 'open'
    /** The codes that this route can answer with, besides those that every route can. */
    errors?: readonly ErrorCode[]
  }
  interface FastifyRequest {
    /** Who asks. Not there on `open` routes. */
    key: AuthenticatedKey
  }
}

/** A success in JSON, for `schema.response`. */
export function json<Schema extends z.ZodType>(description: string, schema: Schema) {
  return { description, content: { 'application/json': { schema } } }
}

/** 204. */
export function nothing(description: string) {
  return z.undefined().describe(description)
}

/** Of a POST that says everything with its address. What is sent nevertheless is refused, as unknown fields are everywhere. */
export const noBody = z.strictObject({}).prefault({})

/** Of every route below one sandbox. */
export const sandboxParams = z.strictObject({ id: sandboxRefField })
