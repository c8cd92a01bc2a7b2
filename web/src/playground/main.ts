import { mount } from 'svelte';
import 'uplot/dist/uPlot.min.css';
import '../app.css';
import PlaygroundApp from './PlaygroundApp.svelte';

const target = document.getElementById('app');
if (target) mount(PlaygroundApp, { target });
