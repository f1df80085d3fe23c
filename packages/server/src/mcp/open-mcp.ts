import { McpSessions } from '@dormouse/mcp'
import type { FastifyBaseLogger } from 'fastify'
import type { App, Routes } from '../api/route.ts'
import type { ServerConfig } from '../config/config.ts'
import { LoopbackApi } from './loopback-api.ts'
import { mcpRoutes } from './mcp-routes.ts'
import { originChecker } from './origin-checker.ts'

export interface Mcp {
  readonly routes: Routes
  /** Call once the app listens. */
  open(app: App, url: string): Promise<void>
  /** Call before the app closes. */
  end(): void
  /** Call after the app has closed. */
  close(): Promise<void>
}

export function openMcp(config: ServerConfig, log: FastifyBaseLogger): Mcp {
  const loopback = new LoopbackApi()
  const sessions = new McpSessions({
    onInternalError: (err) => log.error({ err }, 'an MCP tool failed'),
    onClientError: (err) => log.debug({ err }, 'an MCP client sent an invalid message'),
  })
  return {
    routes: mcpRoutes({ sessions, loopback, checkOrigin: originChecker(config) }),
    open: (app, url) => loopback.open(app, url),
    end: () => loopback.end(),
    close: () => sessions.close(),
  }
}
