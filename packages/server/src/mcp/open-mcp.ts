import { McpSessions } from '@dormouse/mcp'
import type { FastifyBaseLogger } from 'fastify'
import type { App, Routes } from '../api/route.ts'
import type { ServerConfig } from '../config/config.ts'
import { LoopbackApi } from './loopback-api.ts'
import { mcpRoutes } from './mcp-routes.ts'
import { originChecker } from './origin-checker.ts'

export interface Mcp {
  readonly routes: Routes
  /** Once the app listens. */
  open(app: App, url: string): Promise<void>
  /** Before the app is closed. */
  end(): void
  /** After it. */
  close(): Promise<void>
}

export function openMcp(config: ServerConfig, log: FastifyBaseLogger): Mcp {
  const loopback = new LoopbackApi()
  const sessions = new McpSessions({
    onProblem: (err) => log.error({ err }, 'an MCP tool failed'),
    onMistake: (err) => log.debug({ err }, 'an MCP client made a mistake'),
  })
  return {
    routes: mcpRoutes({ sessions, loopback, checkOrigin: originChecker(config) }),
    open: (app, url) => loopback.open(app, url),
    end: () => loopback.end(),
    close: () => sessions.close(),
  }
}
