import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ErrorCode } from '@dormouse/contracts'
import { sandboxRefField } from '@dormouse/contracts/http'
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { AuthenticatedKey, Scope } from '../access/access.ts'
import type { Services } from './services.ts'

/** The scope of a route file: a content type parser that it adds applies to its routes only. */
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
    /** Which keys may call the route. `open`: no key needed. The server does not start with a route that lacks it. */
    scope?: Scope | 'open'
    /** The error codes of this route besides those of every route. */
    errors?: readonly ErrorCode[]
  }
  interface FastifyRequest {
    /** The caller's key. Absent on `open` routes. */
    key: AuthenticatedKey
  }
}

/** A JSON answer, for `schema.response`. */
export function json<Schema extends z.ZodType>(description: string, schema: Schema) {
  return { description, content: { 'application/json': { schema } } }
}

/** An answer without a body (204). */
export function nothing(description: string) {
  return z.undefined().describe(description)
}

/** The body of a POST without parameters. Unknown fields are refused, as everywhere. */
export const emptyBody = z.strictObject({}).prefault({})

/** The parameters of every route below one sandbox. */
export const sandboxParams = z.strictObject({ id: sandboxRefField })
