import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// One page, one script, one style sheet under fixed names: they are committed, and the program brings them along.
export default defineConfig({
  plugins: [svelte()],
  worker: { format: 'es', rollupOptions: { output: { entryFileNames: 'worker.js' } } },
  build: {
    outDir: process.env.LONGFAT_PAGE_OUT ?? '../crates/view/page',
    emptyOutDir: false,
    target: 'es2022',
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    rollupOptions: {
      output: { entryFileNames: 'app.js', assetFileNames: 'app.[ext]', chunkFileNames: 'app-[name].js' },
    },
  },
});
