// The browser that the tests look through: the system's Chromium, without anything of its own on the network.
import { chromium } from 'playwright-core';

const QUIET = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

// A busy machine may take long for anything.
export const PATIENCE_MS = 600_000;

export function openBrowser() {
  return chromium.launch({ timeout: PATIENCE_MS, executablePath: process.env.HEAPLAB_CHROMIUM ?? '/usr/bin/chromium', args: QUIET });
}
